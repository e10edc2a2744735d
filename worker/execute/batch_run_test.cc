#include "worker/execute/batch_run.h"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collective/blocking_adapter.h"
#include "worker/collective/communicator_testing.h"

namespace farandole::worker::execute {
namespace {

using testing::ElementsAre;

// The member at position 1 of `size`, whose peers all contribute the same as it does.
class Mirror final : public collective::BlockingCommunicator {
 public:
  explicit Mirror(int size, bool own_buffer = false) : size_(size), own_buffer_(own_buffer) {}

  std::string name() const override { return "mirror"; }
  int position() const override { return 1; }
  int size() const override { return size_; }
  int64_t FusedBytesMax() const override { return fused_bytes_max; }
  void* Buffer(int64_t bytes) override {
    if (!own_buffer_) return nullptr;
    memory_.resize(bytes);
    return memory_.data();
  }
  absl::Status Allreduce(const collective::Instance& instance, const arithmetic::Reduction& how, void* data,
                         int64_t count) override {
    calls.push_back("allreduce " + std::to_string(count));
    instances.push_back(instance);
    used_own_buffer = data == memory_.data();
    reductions.push_back(how);
    for (int64_t i = 0; i < count; ++i) {
      if (how.dtype == DataType::kFloat32)
        static_cast<float*>(data)[i] *= size_ * how.prescale * how.mean * how.postscale;
      if (how.dtype == DataType::kInt64) static_cast<int64_t*>(data)[i] *= size_;
    }
    return status;
  }
  absl::Status Allgather(const collective::Instance& instance, const void* input, void* output,
                         const std::vector<int64_t>& byte_counts) override {
    calls.push_back("allgather");
    instances.push_back(instance);
    counts = byte_counts;
    std::memcpy(static_cast<char*>(output) + byte_counts[0], input, byte_counts[1]);
    return status;
  }
  absl::Status Alltoall(const collective::Instance& instance, const void* input, void* output,
                        const std::vector<int64_t>& send_bytes, const std::vector<int64_t>& receive_bytes) override {
    calls.push_back("alltoall");
    instances.push_back(instance);
    sent = send_bytes;
    received = receive_bytes;
    for (int m = 0; m < size_; ++m) {
      output = std::memcpy(output, static_cast<const char*>(input) + send_bytes[0], send_bytes[1]);
      output = static_cast<char*>(output) + send_bytes[1];
    }
    return status;
  }
  absl::Status Broadcast(const collective::Instance& instance, int root, void* data, int64_t bytes) override {
    calls.push_back("broadcast from " + std::to_string(root));
    instances.push_back(instance);
    if (root != 1) std::memset(data, 7, bytes);
    return status;
  }
  absl::Status Barrier(const collective::Instance& instance) override {
    calls.push_back("barrier");
    instances.push_back(instance);
    return status;
  }
  void Withdraw(const collective::Instance&) override {}
  void Abort(const std::string&) override {}
  Rank SuspectRank() const override { return Rank(); }

  int64_t fused_bytes_max = INT64_MAX;
  std::vector<std::string> calls;
  std::vector<collective::Instance> instances;
  std::vector<arithmetic::Reduction> reductions;
  std::vector<int64_t> counts, sent, received;
  bool used_own_buffer = false;
  absl::Status status;

 private:
  const int size_;
  const bool own_buffer_;
  std::vector<char> memory_;
};

Signature Allreduce(DataType dtype, std::vector<int64_t> shape, ReduceOp op, double pre = 1, double post = 1) {
  Signature signature;
  signature.op = OpKind::kAllreduce;
  signature.dtype = dtype;
  signature.shape = std::move(shape);
  signature.reduce_op = op;
  signature.prescale = pre;
  signature.postscale = post;
  return signature;
}

class BatchRunTest : public testing::TestWithParam<bool> {
 protected:
  void Add(const std::string& name, Signature signature, const void* input, void* output,
           std::vector<int64_t> first_dims = {}) {
    work_.instance = {1, 9, 0};
    work_.operations.push_back(
        std::make_shared<session::Operation>(Request{name, std::move(signature)}, input, output));
    work_.first_dims.push_back(std::move(first_dims));
  }
  absl::Status Run(Mirror* mirror) { return Run(work_, mirror); }
  static absl::Status Run(const session::Work& work, Mirror* mirror) {
    collective::BlockingAdapter communicator(
        std::shared_ptr<collective::BlockingCommunicator>(mirror, [](collective::BlockingCommunicator*) {}));
    const collective::Group group = collective::TestGroup(mirror->size(), 1);
    int ended = 0;
    BatchRun run({[] {}, [&ended] { ++ended; }});
    run.Begin(&work, &group, &communicator);
    EXPECT_TRUE(run.Issue());
    EXPECT_EQ(ended, 1);
    return run.status();
  }

  session::Work work_;
};

TEST_P(BatchRunTest, FusesScalesAndPutsBack) {
  const std::vector<float> a = {1, 2, 3};
  const std::vector<float> c = {10, 20};
  std::vector<float> a_out(3), c_out(2);
  float b = 5;
  Add("a", Allreduce(DataType::kFloat32, {3}, ReduceOp::kSum, 2, 0.5), a.data(), a_out.data());
  Add("b", Allreduce(DataType::kFloat32, {}, ReduceOp::kSum), &b, &b);
  Add("none", Allreduce(DataType::kFloat32, {0}, ReduceOp::kSum), nullptr, nullptr);
  Add("c", Allreduce(DataType::kFloat32, {2, 1}, ReduceOp::kAverage, 1, 10), c.data(), c_out.data());
  Mirror mirror(4, GetParam());
  ASSERT_TRUE(Run(&mirror).ok());
  EXPECT_THAT(mirror.calls, ElementsAre("allreduce 6"));
  EXPECT_EQ(mirror.used_own_buffer, GetParam());
  EXPECT_THAT(a_out, ElementsAre(4, 8, 12));
  EXPECT_EQ(b, 20);
  EXPECT_THAT(c_out, ElementsAre(100, 200));
  EXPECT_THAT(a, ElementsAre(1, 2, 3)) << "inputs stay";
}

TEST_P(BatchRunTest, LoneTensor) {
  const std::vector<float> a = {1, 2, 3};
  std::vector<float> out(3);
  Add("a", Allreduce(DataType::kFloat32, {3}, ReduceOp::kAverage, 3, 1), a.data(), out.data());
  Mirror mirror(2, GetParam());
  ASSERT_TRUE(Run(&mirror).ok());
  EXPECT_EQ(mirror.used_own_buffer, GetParam());
  EXPECT_THAT(out, ElementsAre(3, 6, 9));
}

TEST_P(BatchRunTest, TheCollectiveScalesWhatHasTheSameFactors) {
  std::vector<float> a = {1, 2, 3}, b = {4};
  Add("a", Allreduce(DataType::kFloat32, {3}, ReduceOp::kAverage, 3, 8), a.data(), a.data());
  Add("b", Allreduce(DataType::kFloat32, {1}, ReduceOp::kAverage, 3, 8), b.data(), b.data());
  Mirror mirror(4, GetParam());
  ASSERT_TRUE(Run(&mirror).ok());
  ASSERT_EQ(mirror.reductions.size(), 1u);
  EXPECT_EQ(mirror.reductions[0].prescale, 3);
  EXPECT_EQ(mirror.reductions[0].postscale, 8);
  EXPECT_EQ(mirror.reductions[0].mean, 0.25);
  EXPECT_THAT(a, ElementsAre(24, 48, 72));
  EXPECT_THAT(b, ElementsAre(96));
  // One of them is a sum with another factor: the copies scale.
  float c = 96;
  Add("c", Allreduce(DataType::kFloat32, {1}, ReduceOp::kSum, 3, 1), &c, &c);
  ASSERT_TRUE(Run(&mirror).ok());
  EXPECT_FALSE(mirror.reductions[1].scales());
  EXPECT_THAT(a, ElementsAre(24 * 24, 48 * 24, 72 * 24));
  EXPECT_THAT(b, ElementsAre(96 * 24));
  EXPECT_EQ(c, 96 * 12);
}

TEST_F(BatchRunTest, NoMoreIsFusedThanTheCommunicatorWants) {
  std::vector<float> tensors[] = {std::vector<float>(3, 1), std::vector<float>(5, 2), std::vector<float>(1, 3),
                                  std::vector<float>(20, 4), std::vector<float>(4, 5)};
  int64_t other = 1;
  for (std::vector<float>& t : tensors) {
    const std::string name = std::to_string(t.size());
    Add(name, Allreduce(DataType::kFloat32, {static_cast<int64_t>(t.size())}, ReduceOp::kSum), t.data(), t.data());
    if (t.size() == 5) Add("other", Allreduce(DataType::kInt64, {}, ReduceOp::kSum), &other, &other);
  }
  Mirror mirror(2);
  mirror.fused_bytes_max = 8 * sizeof(float);
  ASSERT_TRUE(Run(&mirror).ok());
  // The first two fill a part; one that is larger than a part is one.
  EXPECT_THAT(mirror.calls, ElementsAre("allreduce 8", "allreduce 1", "allreduce 1", "allreduce 20", "allreduce 4"));
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_THAT(tensors[i], testing::Each(2 * (i + 1.f))) << i;
    if (i == 0) continue;
    EXPECT_GT(mirror.instances[i].part, mirror.instances[i - 1].part);
  }
  EXPECT_EQ(other, 2);
}

TEST_F(BatchRunTest, HalvesOfDifferentFactorsAreApart) {
  uint16_t a = 0, b = 0, c = 0;
  Add("a", Allreduce(DataType::kFloat16, {}, ReduceOp::kSum, 1, 2), &a, &a);
  Add("b", Allreduce(DataType::kFloat16, {}, ReduceOp::kSum), &b, &b);
  Add("c", Allreduce(DataType::kFloat16, {}, ReduceOp::kSum, 1, 2), &c, &c);
  Mirror mirror(2);
  ASSERT_TRUE(Run(&mirror).ok());
  EXPECT_THAT(mirror.calls, ElementsAre("allreduce 2", "allreduce 1"));
  EXPECT_EQ(mirror.reductions[0].postscale, 2);
  EXPECT_EQ(mirror.reductions[1].postscale, 1);
}

TEST_P(BatchRunTest, IntegerAverageIsExact) {
  std::vector<int64_t> a = {1, -7, 0};
  Add("a", Allreduce(DataType::kInt64, {3}, ReduceOp::kAverage), a.data(), a.data());
  Mirror mirror(49, GetParam());
  ASSERT_TRUE(Run(&mirror).ok());
  EXPECT_THAT(a, ElementsAre(1, -7, 0));
}

TEST_F(BatchRunTest, AllgathersHaveInstancesOfTheirOwn) {
  const std::vector<float> a = {1, 2, 3, 4};
  Signature signature;
  signature.op = OpKind::kAllgather;
  signature.dtype = DataType::kFloat32;
  signature.shape = {2, 2};
  Add("a", signature, a.data(), nullptr, {3, 2});
  Add("b", signature, a.data(), nullptr, {0, 2});
  Mirror mirror(2);
  ASSERT_TRUE(Run(&mirror).ok());
  EXPECT_EQ(mirror.instances[0].anchor, 9u);
  EXPECT_EQ(mirror.instances[0].part, 0u);
  EXPECT_EQ(mirror.instances[1].part, 4u);
  EXPECT_THAT(mirror.counts, ElementsAre(0, 16));
  EXPECT_THAT(work_.operations[0]->gathered->shape, ElementsAre(5, 2));
  const float* gathered = static_cast<const float*>(work_.operations[0]->gathered->data.get());
  EXPECT_EQ(std::vector<float>(gathered + 6, gathered + 10), a);
}

TEST_F(BatchRunTest, AllgatherBeyondTheAddressSpace) {
  const float a = 1;
  Signature signature;
  signature.op = OpKind::kAllgather;
  signature.dtype = DataType::kFloat32;
  signature.shape = {1};
  Add("a", signature, &a, nullptr, {int64_t{1} << 62, 1});
  Mirror mirror(2);
  EXPECT_EQ(Run(&mirror).code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(BatchRunTest, BroadcastReadsInputAtTheRootOnly) {
  const std::vector<char> input = {1, 2};
  std::vector<char> here(2), there(2);
  Signature signature;
  signature.op = OpKind::kBroadcast;
  signature.shape = {2};
  signature.root_rank = Rank(1);
  Add("root", signature, input.data(), here.data());
  signature.root_rank = Rank(0);
  Add("leaf", signature, nullptr, there.data());
  Mirror mirror(2);
  ASSERT_TRUE(Run(&mirror).ok());
  EXPECT_THAT(mirror.calls, ElementsAre("broadcast from 1", "broadcast from 0"));
  EXPECT_THAT(here, ElementsAre(1, 2));
  EXPECT_THAT(there, ElementsAre(7, 7));
}

TEST_F(BatchRunTest, FailureOfTheCollectiveIsHandedOn) {
  float a = 1;
  Add("a", Allreduce(DataType::kFloat32, {1}, ReduceOp::kSum), &a, &a);
  Mirror mirror(2);
  mirror.status = absl::UnavailableError("rank 0 is gone");
  EXPECT_EQ(Run(&mirror), mirror.status);
}

TEST_P(BatchRunTest, MixedBatchesAreExecutedPartByPart) {
  float a = 1, c[2] = {5, 6};
  int64_t b = 3, d = 4;
  Signature gather;
  gather.op = OpKind::kAllgather;
  gather.dtype = DataType::kFloat32;
  gather.shape = {1};
  Add("a", Allreduce(DataType::kFloat32, {}, ReduceOp::kSum), &a, &a);
  Add("b", Allreduce(DataType::kInt64, {1}, ReduceOp::kAverage), &b, &b);
  Add("g", gather, c, nullptr, {0, 1});
  Add("c", Allreduce(DataType::kFloat32, {2}, ReduceOp::kAverage, 1, 2), c, c);
  Add("d", Allreduce(DataType::kInt64, {1}, ReduceOp::kSum), &d, &d);
  work_.instance.seq = 7;
  Mirror mirror(2, GetParam());
  ASSERT_TRUE(Run(&mirror).ok());
  EXPECT_THAT(mirror.calls, ElementsAre("allreduce 3", "allreduce 2", "allgather"));
  EXPECT_THAT(mirror.instances, ElementsAre(collective::Instance{1, 9, 7, 0}, collective::Instance{1, 9, 7, 4},
                                            collective::Instance{1, 9, 7, 8}));
  EXPECT_EQ(a, 2);
  EXPECT_EQ(b, 3);
  EXPECT_THAT(c, ElementsAre(10, 12));
  EXPECT_EQ(d, 8);
}

TEST_P(BatchRunTest, AJoinedMemberAddsZerosAndKeepsNothing) {
  float a = 1;
  Add("a", Allreduce(DataType::kFloat32, {}, ReduceOp::kAverage), &a, &a);
  for (int64_t count : {3, 1 << 20}) {
    work_.operations.push_back(nullptr);
    work_.first_dims.emplace_back();
    work_.signatures = {work_.operations[0]->request.signature,
                        Allreduce(DataType::kFloat32, {count}, ReduceOp::kAverage)};
    Mirror mirror(2, GetParam());
    ASSERT_TRUE(Run(&mirror).ok());
    EXPECT_THAT(mirror.calls, ElementsAre("allreduce " + std::to_string(count + 1)));
    EXPECT_EQ(a, 1);
    work_.operations.pop_back();
  }
}

// As an item that the controller enters, or a period that it replays, would have it: no sizes of others.
TEST_F(BatchRunTest, SizesThatAreMissingOrNotOursAreRefused) {
  const std::vector<float> input = {1, 2};
  Signature gather;
  gather.op = OpKind::kAllgather;
  gather.dtype = DataType::kFloat32;
  gather.shape = {2};
  session::Work missing;
  missing.instance = {1, 9, 0};
  missing.operations.push_back(std::make_shared<session::Operation>(Request{"g", gather}, input.data(), nullptr));
  Mirror mirror(2);
  EXPECT_EQ(Run(missing, &mirror).code(), absl::StatusCode::kInternal);
  Add("g", gather, input.data(), nullptr, {1000, 1000});
  EXPECT_THAT(Run(&mirror).message(), testing::HasSubstr("1000 rows as this rank's part of \"g\", which has 2"));
  EXPECT_THAT(mirror.calls, testing::IsEmpty());
}

TEST_F(BatchRunTest, AloneAJoinedMemberDoesAsTheOthersDo) {
  work_.instance = {1, 9, 0};
  work_.operations.push_back(nullptr);
  work_.signatures = {Allreduce(DataType::kFloat32, {1 << 20}, ReduceOp::kSum)};
  Mirror mirror(2);
  ASSERT_TRUE(Run(&mirror).ok());
  EXPECT_THAT(mirror.calls, ElementsAre("barrier", "allreduce 1048576"));
  work_.signatures[0].op = OpKind::kBroadcast;
  EXPECT_EQ(Run(&mirror).code(), absl::StatusCode::kInternal);
}

TEST_F(BatchRunTest, TheScriptsMemoryChangesOnlyAfterAllHaveEntered) {
  std::vector<float> a(1 << 20, 1), out(1 << 20, 5);
  Add("a", Allreduce(DataType::kFloat32, {1 << 20}, ReduceOp::kSum, 3), a.data(), out.data());
  Mirror mirror(2);
  mirror.status = absl::CancelledError("withdrawn");
  EXPECT_EQ(Run(&mirror), mirror.status);
  EXPECT_THAT(mirror.calls, ElementsAre("barrier"));
  EXPECT_EQ(out[0], 5);
  mirror.status = absl::OkStatus();
  EXPECT_TRUE(Run(&mirror).ok());
  EXPECT_EQ(out[0], 6);
  // Small ones go through scratch, also where the communicator has none.
  work_.operations.clear();
  Add("b", Allreduce(DataType::kFloat32, {2}, ReduceOp::kSum), a.data(), a.data());
  mirror.status = absl::CancelledError("withdrawn");
  EXPECT_EQ(Run(&mirror), mirror.status);
  EXPECT_EQ(a[0], 1);
}

// Its peers send to it as many rows as it sends to itself; nobody tells it but they.
TEST_P(BatchRunTest, AnAlltoallLearnsFromTheOthersWhatItGets) {
  const std::vector<int32_t> a = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  Signature signature;
  signature.op = OpKind::kAlltoall;
  signature.dtype = DataType::kInt32;
  signature.shape = {6, 2};
  signature.splits = {1, 2, 3};
  Add("a", signature, a.data(), nullptr);
  signature.splits.clear();
  Add("b", signature, a.data(), nullptr);
  Mirror mirror(3, GetParam());
  ASSERT_TRUE(Run(&mirror).ok());
  EXPECT_THAT(mirror.calls, ElementsAre("alltoall", "alltoall", "alltoall", "alltoall"));
  for (size_t i = 1; i < mirror.instances.size(); ++i) {
    EXPECT_LT(mirror.instances[i - 1].part, mirror.instances[i].part);
  }
  const session::Operation::Gathered& first = *work_.operations[0]->gathered;
  EXPECT_THAT(first.shape, ElementsAre(6, 2));
  EXPECT_THAT(first.splits, ElementsAre(2, 2, 2));
  const int32_t* const data = static_cast<const int32_t*>(first.data.get());
  EXPECT_THAT(std::vector<int32_t>(data, data + 12), ElementsAre(3, 4, 5, 6, 3, 4, 5, 6, 3, 4, 5, 6));
  EXPECT_THAT(mirror.sent, ElementsAre(16, 16, 16)) << "without splits all get alike";
  EXPECT_THAT(mirror.received, ElementsAre(16, 16, 16));
  signature.splits = {1, 2};
  work_.operations.clear();
  Add("c", signature, a.data(), nullptr);
  EXPECT_EQ(Run(&mirror).code(), absl::StatusCode::kInternal);
}

INSTANTIATE_TEST_SUITE_P(Buffers, BatchRunTest, testing::Bool());

}  // namespace
}  // namespace farandole::worker::execute
