#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/cuda/fake_gpus_testing.h"
#include "worker/staging/staged_communicator.h"

namespace farandole::worker::staging {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kChunkBytes = 4096;
constexpr int kChunkInts = kChunkBytes / sizeof(int);
// What comes, is on the host, and goes.
constexpr int kAtATime = 3;

bool SoonTrue(const std::function<bool()>& is_so) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!is_so() && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
  return is_so();
}

// What a test sets in the communicator for host memory, and sees there.
class Script {
 public:
  // In the middle of collective number `n`, counted from 0; what it ends with.
  std::function<absl::Status(int n)> during = [](int) { return absl::OkStatus(); };
  std::vector<collective::Instance> instances;
  std::vector<int64_t> counts;

  void NoteAbort(const std::string& reason) {
    std::lock_guard<std::mutex> lock(mutex_);
    aborts_.push_back(reason);
  }
  std::vector<std::string> aborts() {
    std::lock_guard<std::mutex> lock(mutex_);
    return aborts_;
  }
  std::vector<uint32_t> parts() const {
    std::vector<uint32_t> parts;
    for (const collective::Instance& instance : instances) parts.push_back(instance.part);
    return parts;
  }

 private:
  // An abort comes from any thread.
  std::mutex mutex_;
  std::vector<std::string> aborts_;
};

// Adds 1 to all integers that there are.
class ScriptedHost final : public collective::Communicator {
 public:
  explicit ScriptedHost(Script* script) : script_(script) {}
  std::string name() const override { return "scripted"; }
  int position() const override { return 0; }
  int size() const override { return 2; }
  int64_t FusedBytesMax(DeviceKind, device::Device*) override { return 1; }
  void Start(const collective::Instance& instance, const collective::Collective& collective, const Enqueued&,
             Done done) override {
    EXPECT_EQ(collective.memory, DeviceKind::kHost);
    const std::vector<collective::Piece>& pieces = std::get<collective::Allreduce>(collective.what).pieces;
    script_->instances.push_back(instance);
    script_->counts.push_back(collective::CountOf(pieces));
    const absl::Status status = script_->during(static_cast<int>(script_->instances.size()) - 1);
    for (const collective::Piece& piece : pieces) {
      const int* const input = static_cast<const int*>(piece.input);
      if (status.ok() && input != nullptr) {
        std::transform(input, input + piece.count, static_cast<int*>(piece.output), [](int i) { return i + 1; });
      }
    }
    done(status);
  }
  void Withdraw(const collective::Instance&) override { ADD_FAILURE() << "what is on a device is not withdrawn"; }
  void Abort(const std::string& reason) override { script_->NoteAbort(reason); }
  Rank SuspectRank() const override { return Rank(); }

 private:
  Script* const script_;
};

std::atomic<bool> gate{false};
void WaitForGate(void**) {
  while (!gate) std::this_thread::yield();
}

class StagedPipelineTest : public testing::Test {
 protected:
  explicit StagedPipelineTest(int64_t chunk_bytes = kChunkBytes)
      : staged_(std::make_unique<StagedCommunicator>(std::make_unique<ScriptedHost>(&script_), 60000, chunk_bytes)),
        stream_(cuda::CudaStream::Make(gpus_.device(0)).value()) {
    gate = false;
    fake_.add_kernel("gate", WaitForGate, {});
  }
  ~StagedPipelineTest() override {
    gate = true;
    EXPECT_TRUE(SoonTrue([this] { return QueuedCopies() == 0; }));
    fake_.sticky_error = cuda::CUDA_SUCCESS;
    fake_.delay_us_max = 0;
  }

  // 0, 1, 2, ... on the device, counts what is copied from here on.
  std::unique_ptr<cuda::FakeTensor> Tensor(int count) {
    std::vector<char> bytes(count * sizeof(int));
    for (int i = 0; i < count; ++i) std::memcpy(&bytes[i * sizeof(int)], &i, sizeof(int));
    auto tensor = std::make_unique<cuda::FakeTensor>(gpus_.device(0), stream_->get(), bytes);
    EXPECT_TRUE(SoonTrue([this] { return QueuedCopies() == 0; }));
    to_host_before_ = fake_.copies_to_host;
    to_device_before_ = fake_.copies_to_device;
    return tensor;
  }
  // The first of the tensor that is not one more than it was; -1: all are.
  static int Wrong(const cuda::FakeTensor& tensor, int count) {
    const std::vector<char> bytes = tensor.Read();
    for (int i = 0; i < count; ++i) {
      int value = 0;
      std::memcpy(&value, &bytes[i * sizeof(int)], sizeof(int));
      if (value != i + 1) return i;
    }
    return -1;
  }

  struct Outcome {
    absl::Status status;
    int ended = 0, enqueued = 0;
    bool enqueued_first = false;
    int left = 0;  // copies that were not done at the end
  };
  Outcome Run(const cuda::FakeTensor& tensor, int count, const collective::Instance& instance = {1, 1, 0}) {
    collective::Collective collective{collective::Allreduce{DataType::kInt32, {{tensor.data(), tensor.data(), count}}},
                                      DeviceKind::kAccelerator, gpus_.device(0)};
    collective.ready.push_back(gpus_.device(0)->Record(stream_->get()).value());
    Outcome outcome;
    const auto enqueued = [&](const device::EventPtr& event) {
      outcome.enqueued_first = ++outcome.enqueued == 1 && outcome.ended == 0;
      EXPECT_TRUE(event->MakeWait(stream_->get()).ok());
    };
    staged_->Start(instance, collective, enqueued, [&](const absl::Status& status) {
      outcome.status = status;
      ++outcome.ended;
      outcome.left = QueuedCopies();
    });
    return outcome;
  }
  // Ended once, with nothing of it left on the device, and never said that the result will be there.
  static void ExpectFailed(const Outcome& outcome, const std::string& message) {
    EXPECT_THAT(std::string(outcome.status.message()), HasSubstr(message));
    EXPECT_EQ(outcome.ended, 1);
    EXPECT_EQ(outcome.enqueued, 0);
    EXPECT_EQ(outcome.left, 0);
  }

  int QueuedCopies() const { return fake_.copies_queued - fake_.copies_to_host - fake_.copies_to_device; }
  int ToHost() const { return fake_.copies_to_host - to_host_before_; }
  int ToDevice() const { return fake_.copies_to_device - to_device_before_; }

  cuda::FakeGpus gpus_{1};
  cuda::FakeCuda& fake_ = gpus_.fake();
  Script script_;
  std::unique_ptr<StagedCommunicator> staged_;
  const std::unique_ptr<cuda::CudaStream> stream_;
  int to_host_before_ = 0, to_device_before_ = 0;
};

TEST_F(StagedPipelineTest, WhileTheHostIsAtAChunkOthersComeAndGo) {
  constexpr int kChunks = 6;
  const auto tensor = Tensor(kChunks * kChunkInts);
  script_.during = [&](int n) {
    EXPECT_TRUE(SoonTrue([&] { return ToHost() == std::min(n + kAtATime, kChunks); }))
        << "chunk " << n << " is not done before the next ones have come; " << ToHost() << " have";
    EXPECT_TRUE(SoonTrue([&] { return ToDevice() == n; })) << "chunk " << n << ", those before it are back";
    return absl::OkStatus();
  };
  const Outcome outcome = Run(*tensor, kChunks * kChunkInts);
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(outcome.ended, 1);
  EXPECT_TRUE(outcome.enqueued_first) << outcome.enqueued;
  EXPECT_EQ(ToDevice(), kChunks);
  EXPECT_EQ(Wrong(*tensor, kChunks * kChunkInts), -1);
}

TEST_F(StagedPipelineTest, NoChunkComesWhereAnotherHasNotLeft) {
  constexpr int kCount = 80 * kChunkInts + 17;
  const auto tensor = Tensor(kCount);
  fake_.delay_us_max = 300;
  const Outcome outcome = Run(*tensor, kCount);
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(Wrong(*tensor, kCount), -1);
}

TEST_F(StagedPipelineTest, EndsWhenAllIsBack) {
  const auto tensor = Tensor(2 * kChunkInts);
  fake_.delay_us_max = 300;
  for (uint64_t i = 1; i <= 30; ++i) {
    const Outcome outcome = Run(*tensor, 2 * kChunkInts, {1, i, 0});
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    ASSERT_EQ(outcome.left, 0);
  }
}

// Chunks take instances of their own, which rise; the batch's collectives share them out in their order.
TEST_F(StagedPipelineTest, NumbersChunksThroughTheBatch) {
  const auto tensor = Tensor(3 * kChunkInts);
  for (const collective::Instance& instance : {collective::Instance{1, 7, 0, 0}, {1, 7, 0, 4}, {1, 7, 1, 0}}) {
    EXPECT_TRUE(Run(*tensor, 3 * kChunkInts, instance).status.ok());
  }
  EXPECT_THAT(script_.parts(), ElementsAre(0, 4, 8, 12, 16, 20, 0, 4, 8));
  EXPECT_EQ(script_.instances[5].seq, 0);
  EXPECT_EQ(script_.instances[6].seq, 1);
  EXPECT_EQ(script_.instances[6].anchor, 7);
}

TEST_F(StagedPipelineTest, OneThatAddsZerosStartsTheSameOnTheHost) {
  constexpr int kCount = 5 * kChunkInts + 100;
  const auto tensor = Tensor(kCount);
  EXPECT_TRUE(Run(*tensor, kCount).status.ok());
  Script of_zeros;
  StagedCommunicator joined(std::make_unique<ScriptedHost>(&of_zeros), 60000, kChunkBytes);
  const collective::Collective zeros{collective::Allreduce{DataType::kInt32, {{nullptr, nullptr, kCount}}},
                                     DeviceKind::kAccelerator};
  int ended = 0;
  joined.Start({1, 1, 0}, zeros, nullptr, [&ended](const absl::Status& status) {
    EXPECT_TRUE(status.ok()) << status;
    ++ended;
  });
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(of_zeros.instances, script_.instances);
  EXPECT_EQ(of_zeros.counts, script_.counts);
  EXPECT_GT(of_zeros.counts.size(), 5);
}

TEST_F(StagedPipelineTest, AFailureOfAChunkIsTheEndOfAll) {
  const auto tensor = Tensor(10 * kChunkInts);
  fake_.delay_us_max = 20000;
  script_.during = [](int n) { return n == 2 ? absl::UnavailableError("rank 1 is gone") : absl::OkStatus(); };
  const Outcome outcome = Run(*tensor, 10 * kChunkInts);
  ExpectFailed(outcome, "rank 1 is gone");
  EXPECT_TRUE(absl::IsUnavailable(outcome.status));
  EXPECT_LT(ToHost(), 10) << "what has not begun to come does not come";
  EXPECT_EQ(script_.counts.size(), 3);
  fake_.delay_us_max = 0;
  ExpectFailed(Run(*tensor, 10 * kChunkInts, {1, 2, 0}), "rank 1 is gone");
  EXPECT_EQ(script_.counts.size(), 3) << "nothing later is begun";
}

TEST_F(StagedPipelineTest, ADeviceThatIsLostBetweenChunksEndsIt) {
  const auto tensor = Tensor(5 * kChunkInts);
  script_.during = [this](int n) {
    if (n == 1) fake_.sticky_error = cuda::CUDA_ERROR_ILLEGAL_ADDRESS;
    return absl::OkStatus();
  };
  const Outcome outcome = Run(*tensor, 5 * kChunkInts);
  EXPECT_TRUE(absl::IsDataLoss(outcome.status)) << outcome.status;
  EXPECT_EQ(outcome.ended, 1);
  EXPECT_EQ(outcome.enqueued, 0);
  EXPECT_EQ(script_.counts.size(), 2);
  EXPECT_THAT(script_.aborts(), ElementsAre(std::string(outcome.status.message()))) << "the others hear of it";
}

TEST_F(StagedPipelineTest, AnAbortBetweenChunksEndsItWithTheReason) {
  const auto tensor = Tensor(10 * kChunkInts);
  fake_.delay_us_max = 20000;
  script_.during = [this](int n) {
    if (n == 1) std::thread([this] { staged_->Abort("rank 1 has died"); }).join();
    return absl::OkStatus();
  };
  const Outcome outcome = Run(*tensor, 10 * kChunkInts);
  ExpectFailed(outcome, "rank 1 has died");
  EXPECT_TRUE(absl::IsAborted(outcome.status));
  EXPECT_EQ(script_.counts.size(), 2);
}

// The memory that the device may still write to stays.
TEST_F(StagedPipelineTest, AnAbortDoesNotWaitForAStreamThatIsStuck) {
  const int before = fake_.live_host_allocations;  // of lost devices
  const auto tensor = Tensor(5 * kChunkInts);
  EXPECT_EQ(fake_.launch("gate", stream_->get(), nullptr), cuda::CUDA_SUCCESS);
  std::thread aborts([this] {
    EXPECT_TRUE(SoonTrue([this] { return QueuedCopies() > 0; }));
    staged_->Abort("rank 1 has died");
  });
  const Outcome outcome = Run(*tensor, 5 * kChunkInts);
  aborts.join();
  EXPECT_EQ(outcome.status, absl::AbortedError("rank 1 has died"));
  EXPECT_EQ(outcome.enqueued, 0);
  EXPECT_GT(outcome.left, 0);
  EXPECT_THAT(script_.counts, testing::IsEmpty());
  staged_ = nullptr;
  EXPECT_EQ(fake_.live_host_allocations, before + 1);
  gate = true;
  EXPECT_TRUE(SoonTrue([this] { return QueuedCopies() == 0; }));
}

class StagedMemoryTest : public StagedPipelineTest {
 protected:
  StagedMemoryTest() : StagedPipelineTest(1 << 20) {}
};

TEST_F(StagedMemoryTest, PinsNoMoreThanTheChunksThatAreUnderWay) {
  constexpr int kCount = 10 << 18;
  const auto tensor = Tensor(kCount);
  const size_t before = fake_.live_host_bytes;
  size_t most = 0;
  script_.during = [&](int) {
    most = std::max<size_t>(most, fake_.live_host_bytes - before);
    return absl::OkStatus();
  };
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Run(*tensor, kCount, {1, 1, static_cast<uint64_t>(i)}).status.ok());
  EXPECT_EQ(script_.counts.size(), 30);
  EXPECT_EQ(most, kAtATime << 20);
}

}  // namespace
}  // namespace farandole::worker::staging
