#ifndef FARANDOLE_WORKER_NCCL_DEVICE_COLLECTIVES_TESTING_H_
#define FARANDOLE_WORKER_NCCL_DEVICE_COLLECTIVES_TESTING_H_

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "worker/arithmetic/adasum.h"
#include "worker/collective/communicator.h"
#include "worker/collective/communicator_testing.h"
#include "worker/cuda/fake_gpus_testing.h"

// Collectives on the memory of fake devices, for the tests of all communicators that work there: to be run by every
// member.
namespace farandole::worker::nccl {

// A member as its framework sees it: a device, the stream on which tensors come to be, and the communicator.
class Member {
 public:
  Member(collective::Communicator* communicator, cuda::CudaDevice* device)
      : communicator_(communicator), device_(device), stream_(cuda::CudaStream::Make(device).value()) {}

  int ranks() const { return communicator_->size(); }
  int own() const { return communicator_->position(); }
  cuda::CUstream stream() const { return stream_->get(); }
  cuda::CudaDevice* device() const { return device_; }
  cuda::FakeTensor Tensor(int64_t bytes) { return {device_, stream(), bytes}; }
  cuda::FakeTensor Tensor(const std::vector<char>& bytes) { return {device_, stream(), bytes}; }

  // Behind what is on the framework's stream, and before what comes there later. The host waits for neither.
  struct Pending {
    absl::Status status;
    bool enqueued = false;
    absl::Notification ended;
  };
  std::shared_ptr<Pending> Start(decltype(collective::Collective::what) what, device::Phases* phases = nullptr) {
    collective::Collective collective{std::move(what), DeviceKind::kAccelerator, device_, {}, phases};
    collective.ready.push_back(device_->Record(stream()).value());
    auto pending = std::make_shared<Pending>();
    const auto enqueued = [this, pending](const device::EventPtr& event) {
      pending->enqueued = true;
      EXPECT_TRUE(event->MakeWait(stream()).ok());
    };
    collectives_.push_back(std::make_unique<collective::Collective>(std::move(collective)));
    communicator_->Start({1, ++instances_, 0}, *collectives_.back(), enqueued, [pending](const absl::Status& status) {
      pending->status = status;
      pending->ended.Notify();
    });
    return pending;
  }
  absl::Status Run(decltype(collective::Collective::what) what, device::Phases* phases = nullptr) {
    const auto pending = Start(std::move(what), phases);
    pending->ended.WaitForNotification();
    EXPECT_TRUE(pending->enqueued || !pending->status.ok());
    return pending->status;
  }

 private:
  collective::Communicator* const communicator_;
  cuda::CudaDevice* const device_;
  const std::unique_ptr<cuda::CudaStream> stream_;
  uint64_t instances_ = 0;
  std::vector<std::unique_ptr<collective::Collective>> collectives_;
};

inline std::vector<char> Operand(DataType dtype, int64_t count, int rank, int round) {
  std::vector<char> bytes(count * SizeOf(dtype));
  collective::FillOperand(dtype, bytes.data(), count, rank, round);
  return bytes;
}

constexpr DataType kAllTypes[] = {DataType::kUint8,   DataType::kInt8,    DataType::kUint16,  DataType::kInt16,
                                  DataType::kInt32,   DataType::kInt64,   DataType::kFloat16, DataType::kFloat32,
                                  DataType::kFloat64, DataType::kBfloat16};

// Two tensors that lie apart, one of which is reduced in place.
inline void CheckAllreduces(Member* member) {
  int round = 0;
  for (const DataType dtype : kAllTypes) {
    for (const ReduceOp op : collective::kOps) {
      for (const int64_t count : {0, 1, 13, 3001}) {
        const arithmetic::Reduction how(dtype, op);
        ++round;
        cuda::FakeTensor first = member->Tensor(Operand(dtype, count, member->own(), round));
        cuda::FakeTensor second = member->Tensor(Operand(dtype, 7, member->own(), round));
        cuda::FakeTensor result = member->Tensor(7 * SizeOf(dtype));
        collective::Allreduce call{how, {{first.data(), first.data(), count}, {second.data(), result.data(), 7}}};
        if (dtype <= DataType::kInt64) call.scales.assign(2, {op});
        ASSERT_TRUE(member->Run(std::move(call)).ok());
        EXPECT_EQ(collective::WrongCell(how, first.Read().data(), count, member->ranks(), round), -1)
            << Name(dtype) << " " << Name(op) << " " << count;
        EXPECT_EQ(collective::WrongCell(how, result.Read().data(), 7, member->ranks(), round), -1) << Name(dtype);
        EXPECT_EQ(second.Read(), Operand(dtype, 7, member->own(), round)) << "inputs stay";
      }
    }
  }
}

// Tensors as they lie for a batch, those that do not fill 16 bytes apart from the others: results, or operands, or
// both, or neither, on each member otherwise. What is beside them is somebody else's.
inline void CheckPlaces(Member* member) {
  constexpr int kTensors = 5;
  const int64_t counts[kTensors] = {5, 64, 3, 16, 1};
  const int64_t elements_before[kTensors] = {80, 0, 85, 64, 88};
  constexpr int64_t kBeside = 16, kElements = 89;
  int round = 0;
  for (const DataType dtype : {DataType::kFloat16, DataType::kFloat32, DataType::kInt16, DataType::kInt32}) {
    for (int way = 0; way < 4; ++way) {
      const bool results_together = (way + member->own()) % 4 / 2 == 0;
      const bool operands_together = (way + member->own()) % 2 == 0;
      const arithmetic::Reduction how(dtype);
      ++round;
      const int64_t size = SizeOf(dtype);
      const std::vector<char> x(kElements * size + 2 * kBeside, 'x');
      std::vector<char> all = x;
      const auto begin = [&](int i) { return elements_before[i] * size + (counts[i] % 8 == 0 ? 0 : kBeside); };
      std::vector<cuda::FakeTensor> apart;
      for (int i = 0; i < kTensors; ++i) {
        const std::vector<char> operand = Operand(dtype, counts[i], member->own(), round);
        apart.push_back(member->Tensor(operand));
        if (operands_together) std::copy(operand.begin(), operand.end(), all.begin() + begin(i));
      }
      const cuda::FakeTensor together = member->Tensor(all);
      collective::Allreduce call{how, {}};
      if (dtype <= DataType::kInt64) call.scales.assign(kTensors, {ReduceOp::kSum});
      for (int i = 0; i < kTensors; ++i) {
        void* const at = static_cast<char*>(together.data()) + begin(i);
        void* const elsewhere = apart[i].data();
        call.pieces.push_back({operands_together ? at : elsewhere, results_together ? at : elsewhere, counts[i]});
      }
      ASSERT_TRUE(member->Run(std::move(call)).ok());
      all = together.Read();
      for (int i = 0; i < kTensors; ++i) {
        const std::vector<char> elsewhere = apart[i].Read();
        char* const part = all.data() + begin(i);
        EXPECT_EQ(
            collective::WrongCell(how, results_together ? part : elsewhere.data(), counts[i], member->ranks(), round),
            -1)
            << Name(dtype) << " " << i << " of way " << way;
        const std::vector<char> operand = Operand(dtype, counts[i], member->own(), round);
        if (results_together != operands_together) {
          EXPECT_EQ(std::memcmp(results_together ? elsewhere.data() : part, operand.data(), operand.size()), 0)
              << "inputs stay";
        }
        if (results_together || operands_together) std::fill(part, part + operand.size(), 'x');
      }
      EXPECT_EQ(all, x) << Name(dtype) << " way " << way;
    }
  }
}

// Times 4, the mean of a half, times 2 in the end: exact in every type.
inline void CheckFactors(Member* member) {
  for (const DataType dtype : {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat32, DataType::kFloat64}) {
    const int64_t count = 130;
    cuda::FakeTensor one = member->Tensor(Operand(dtype, count, member->own(), 1));
    cuda::FakeTensor other = member->Tensor(Operand(dtype, count, member->own(), 1));
    const arithmetic::Reduction how(dtype, ReduceOp::kSum, 4, 0.25, 2);
    ASSERT_TRUE(member->Run(collective::Allreduce{how, {{one.data(), one.data(), count}}}).ok());
    const arithmetic::Reduction sum(dtype);
    collective::Allreduce apart{sum, {{other.data(), other.data(), count}}, {{ReduceOp::kSum, 4, 0.5}}};
    ASSERT_TRUE(member->Run(std::move(apart)).ok());
    for (int64_t i = 0; i < count; ++i) {
      int cells = 0;
      for (int rank = 0; rank < member->ranks(); ++rank) cells += collective::FormulaCell(rank, i, 1);
      char expected[8];
      collective::WriteCell(dtype, expected, 2 * cells);
      ASSERT_EQ(std::memcmp(one.Read().data() + i * SizeOf(dtype), expected, SizeOf(dtype)), 0) << Name(dtype);
      ASSERT_EQ(std::memcmp(other.Read().data() + i * SizeOf(dtype), expected, SizeOf(dtype)), 0) << Name(dtype);
    }
  }
  // 3 * (ranks + 1) / 2 as an integer's mean.
  cuda::FakeTensor whole = member->Tensor(std::vector<char>(13, static_cast<char>(3 * (member->own() + 1))));
  collective::Allreduce mean{DataType::kInt8, {{whole.data(), whole.data(), 13}}, {{ReduceOp::kAverage}}};
  ASSERT_TRUE(member->Run(std::move(mean)).ok());
  EXPECT_EQ(whole.Read(), std::vector<char>(13, static_cast<char>(3 * (member->ranks() + 1) / 2)));
}

// Several layers, of which one has no elements, as the host's arithmetic has them; one result is not wanted.
inline void CheckAdasum(Member* member) {
  const int64_t counts[] = {70, 0, 5, 300};
  for (const DataType dtype : {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat32, DataType::kFloat64}) {
    std::vector<cuda::FakeTensor> tensors;
    collective::Adasum call{dtype, {}, {}};
    for (int k = 0; k < 4; ++k) {
      tensors.push_back(member->Tensor(Operand(dtype, counts[k], member->own(), k)));
      call.pieces.push_back({tensors[k].data(), k == 3 ? nullptr : tensors[k].data(), counts[k]});
      call.factors.push_back(k == 2 ? 0.5 : 1);
    }
    ASSERT_TRUE(member->Run(std::move(call)).ok());
    for (int k = 0; k < 4; ++k) {
      std::vector<std::vector<char>> operands;
      std::vector<const char*> pointers;
      for (int m = 0; m < member->ranks(); ++m) operands.push_back(Operand(dtype, counts[k], m, k));
      for (const std::vector<char>& operand : operands) pointers.push_back(operand.data());
      std::vector<double> products(arithmetic::AdasumProducts(member->ranks()));
      arithmetic::AddDotProducts(dtype, pointers, counts[k], absl::MakeSpan(products));
      std::vector<double> weights = arithmetic::AdasumWeights(products, member->ranks());
      for (double& weight : weights) weight *= k == 2 ? 0.5 : 1;
      std::vector<char> expected(operands[0].size());
      arithmetic::WeightedSum(dtype, pointers, weights, expected.data(), counts[k]);
      EXPECT_EQ(tensors[k].Read(), k == 3 ? operands[member->own()] : expected) << Name(dtype) << " " << k;
    }
  }
}

// Even and uneven counts, a member without any.
inline void CheckReducescatters(Member* member) {
  int round = 0;
  for (const DataType dtype : {DataType::kInt16, DataType::kFloat16, DataType::kFloat32, DataType::kInt64}) {
    for (const int uneven : {0, 1, 2}) {
      ++round;
      std::vector<int64_t> counts;
      for (int m = 0; m < member->ranks(); ++m) counts.push_back(uneven == 2 && m == 0 ? 0 : 13 + uneven * m);
      const int64_t all = std::accumulate(counts.begin(), counts.end(), int64_t{0});
      const int64_t before = std::accumulate(counts.begin(), counts.begin() + member->own(), int64_t{0});
      cuda::FakeTensor input = member->Tensor(Operand(dtype, all, member->own(), round));
      cuda::FakeTensor output = member->Tensor(counts[member->own()] * SizeOf(dtype));
      const arithmetic::Reduction how(dtype);
      ASSERT_TRUE(member->Run(collective::Reducescatter{how, input.data(), output.data(), counts}).ok());
      EXPECT_EQ(collective::WrongCell(how, output.Read().data(), counts[member->own()], member->ranks(), round, before),
                -1)
          << Name(dtype) << ", uneven " << uneven;
      EXPECT_EQ(input.Read(), Operand(dtype, all, member->own(), round)) << "the input stays";
    }
  }
}

inline void CheckRows(Member* member) {
  const auto of = [](int from, int to, int64_t bytes) {
    return std::vector<char>(bytes, static_cast<char>(from * 16 + to));
  };
  for (const int uneven : {0, 1, 5}) {
    std::vector<int64_t> counts;
    std::vector<char> gathered;
    for (int m = 0; m < member->ranks(); ++m) {
      counts.push_back(uneven * m + (uneven == 5 ? 0 : 9));
      const std::vector<char> part = of(m, 7, counts.back());
      gathered.insert(gathered.end(), part.begin(), part.end());
    }
    cuda::FakeTensor input = member->Tensor(of(member->own(), 7, counts[member->own()]));
    cuda::FakeTensor output = member->Tensor(static_cast<int64_t>(gathered.size()));
    ASSERT_TRUE(member->Run(collective::Allgather{input.data(), output.data(), counts}).ok());
    EXPECT_EQ(output.Read(), gathered) << "allgather, uneven " << uneven;

    collective::Alltoall call;
    std::vector<char> sent, expected;
    for (int m = 0; m < member->ranks(); ++m) {
      call.send_bytes.push_back((member->own() + 2 * m) % 3 * (uneven + 1));
      call.receive_bytes.push_back((m + 2 * member->own()) % 3 * (uneven + 1));
      const std::vector<char> out = of(member->own(), m, call.send_bytes.back());
      const std::vector<char> in = of(m, member->own(), call.receive_bytes.back());
      sent.insert(sent.end(), out.begin(), out.end());
      expected.insert(expected.end(), in.begin(), in.end());
    }
    cuda::FakeTensor rows = member->Tensor(sent);
    cuda::FakeTensor received = member->Tensor(static_cast<int64_t>(expected.size()));
    call.input = rows.data();
    call.output = received.data();
    ASSERT_TRUE(member->Run(std::move(call)).ok());
    EXPECT_EQ(received.Read(), expected) << "alltoall " << uneven;
  }
  for (int root = 0; root < member->ranks(); ++root) {
    cuda::FakeTensor input = member->Tensor(of(member->own(), 3, 100));
    cuda::FakeTensor output = member->Tensor(100);
    const bool in_place = root % 2 == 0;
    void* const to = in_place ? input.data() : output.data();
    ASSERT_TRUE(member->Run(collective::Broadcast{root, input.data(), to, 100}).ok());
    EXPECT_EQ((in_place ? input : output).Read(), of(root, 3, 100)) << "broadcast from " << root;
  }
}

// Many at once, each behind the one before, and what the framework does with the result behind all of them.
inline void CheckOrder(Member* member) {
  constexpr int kSteps = 40;
  const std::vector<float> ones(1000, 1.f);
  std::vector<char> bytes(ones.size() * sizeof(float));
  std::memcpy(bytes.data(), ones.data(), bytes.size());
  cuda::FakeTensor sum = member->Tensor(bytes);
  std::vector<std::shared_ptr<Member::Pending>> started;
  for (int i = 0; i < kSteps; ++i) {
    // The mean: ones stay ones, whatever the order in which they are read.
    const arithmetic::Reduction how(DataType::kFloat32, ReduceOp::kSum, 1, 1, 1.0 / member->ranks());
    started.push_back(member->Start(collective::Allreduce{how, {{sum.data(), sum.data(), 1000}}}));
  }
  const std::vector<char> after = sum.Read();
  for (const auto& one : started) {
    one->ended.WaitForNotification();
    EXPECT_TRUE(one->status.ok()) << one->status;
  }
  if ((member->ranks() & (member->ranks() - 1)) == 0) EXPECT_EQ(after, bytes);
}

}  // namespace farandole::worker::nccl

#endif  // FARANDOLE_WORKER_NCCL_DEVICE_COLLECTIVES_TESTING_H_
