#include "worker/cuda/cuda_device.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "worker/cuda/cuda_stream.h"
#include "worker/cuda/fake_cuda.h"
#include "worker/cuda/pinned_memory.h"
#include "worker/cuda/shared_object.h"

namespace farandole::worker::cuda {
namespace {

constexpr char kFake[] = "worker/cuda/fake_cuda.so";

std::atomic<bool>* gate = nullptr;
void WaitForGate(void**) {
  while (!*gate) std::this_thread::yield();
}

class CudaDeviceTest : public testing::Test {
 protected:
  CudaDeviceTest()
      : library_(SharedObject::Open(kFake).value()),
        fake_(reinterpret_cast<FakeCudaGetter*>(library_.Find(kFakeCudaGetter))()),
        driver_(Driver::Load(kFake).value()),
        device_(CudaDevice::Open(driver_.get(), 0).value()) {
    gate = &open_;
    fake_->add_kernel("wait", WaitForGate, {});
  }

  // What is freed in the order of a stream is gone when its thread has come to that.
  ~CudaDeviceTest() override {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (fake_->live_device_allocations > 0 && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
    EXPECT_EQ(fake_->live_device_allocations, 0);
  }

  // Keeps a stream busy until open_ is set.
  void Block(CUstream stream) { EXPECT_EQ(fake_->launch("wait", stream, nullptr), CUDA_SUCCESS); }
  static void Await(const CudaEvent& event) {
    while (!event.Reached().value()) std::this_thread::yield();
  }

  const SharedObject library_;
  FakeCuda* const fake_;
  std::atomic<bool> open_{false};
  const std::unique_ptr<const Driver> driver_;
  const std::unique_ptr<CudaDevice> device_;
};

TEST_F(CudaDeviceTest, DescribesItself) {
  EXPECT_EQ(device_->ordinal(), 0);
  EXPECT_EQ(device_->name(), "GPU 0 (Fake GPU 0)");
  EXPECT_EQ(device_->uuid(), "01000000000000000000000000000000");
  EXPECT_EQ(device_->multiprocessors(), 2);
}

TEST_F(CudaDeviceTest, SaysWhyThereIsNone) {
  const absl::Status status = CudaDevice::Open(driver_.get(), 7).status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_NE(status.message().find("GPU 7 cannot be used: cuDeviceGet: "), std::string::npos) << status;
}

// A thread of the script has the context that it had before.
TEST_F(CudaDeviceTest, LeavesTheThreadsContextAlone) {
  CUcontext before = nullptr;
  CUcontext inside = nullptr;
  CUcontext after = nullptr;
  device_->api().cuCtxGetCurrent(&before);
  {
    const CudaDevice::Current current(device_.get());
    device_->api().cuCtxGetCurrent(&inside);
    const CudaDevice::Current again(device_.get());
  }
  device_->api().cuCtxGetCurrent(&after);
  EXPECT_EQ(before, nullptr);
  EXPECT_NE(inside, nullptr);
  EXPECT_EQ(after, nullptr);
}

TEST_F(CudaDeviceTest, OurStreamsGoFirstAndWaitForNoDefaultStream) {
  const auto stream = CudaStream::Make(device_.get()).value();
  EXPECT_EQ(fake_->stream_flags, CU_STREAM_NON_BLOCKING);
  EXPECT_EQ(fake_->stream_priority, FakeCuda::kGreatestPriority);
  fake_->stream_flags = ~CU_STREAM_NON_BLOCKING;
  EXPECT_TRUE(device_->AllocateResult(8, stream->get()).ok());
  EXPECT_EQ(fake_->stream_flags, CU_STREAM_NON_BLOCKING) << "that on which memory is made";
}

TEST_F(CudaDeviceTest, OneStreamWaitsForAnother) {
  const auto first = CudaStream::Make(device_.get()).value();
  const auto second = CudaStream::Make(device_.get()).value();
  Block(first->get());
  const auto blocked = device_->RecordEvent(first->get()).value();
  EXPECT_TRUE(blocked->MakeWait(second->get()).ok());
  const auto behind = device_->RecordEvent(second->get()).value();
  EXPECT_FALSE(blocked->Reached().value());
  EXPECT_FALSE(behind->Reached().value());
  EXPECT_LT(blocked->order(), behind->order());
  EXPECT_EQ(blocked->stream(), first->get());
  open_ = true;
  Await(*behind);
  EXPECT_TRUE(blocked->Reached().value());
}

TEST_F(CudaDeviceTest, AStreamWhoseQueueIsFullHoldsUpNoOtherShard) {
  const auto full = CudaStream::Make(device_.get()).value();
  std::vector<std::unique_ptr<CudaStream>> others;
  do {
    others.push_back(CudaStream::Make(device_.get()).value());
  } while (CudaDevice::ShardOf(others.back()->get()) == CudaDevice::ShardOf(full->get()));
  fake_->full = full->get();
  std::thread waits([&] { EXPECT_TRUE(device_->Record(full->get()).ok()); });
  while (fake_->held_up == 0) std::this_thread::yield();
  absl::Notification recorded;
  std::thread goes_on([&] {
    EXPECT_TRUE(device_->Record(others.back()->get()).ok());
    recorded.Notify();
  });
  EXPECT_TRUE(recorded.WaitForNotificationWithTimeout(absl::Seconds(10)));
  fake_->full = nullptr;
  waits.join();
  goes_on.join();
}

TEST_F(CudaDeviceTest, UsesEventsAgain) {
  const auto stream = CudaStream::Make(device_.get()).value();
  auto event = device_->Record(stream->get()).value();
  void* const handle = event->handle();
  auto copy = event;
  event = nullptr;
  EXPECT_NE(device_->Record(stream->get()).value()->handle(), handle) << "somebody still looks at it";
  copy = nullptr;
  EXPECT_EQ(device_->Record(stream->get()).value()->handle(), handle);
}

TEST_F(CudaDeviceTest, GivesMemory) {
  const auto stream = CudaStream::Make(device_.get()).value();
  std::shared_ptr<void> on_device = device_->Allocate(8, stream->get()).value();
  const std::shared_ptr<void> copy = device_->Allocate(8, stream->get()).value();
  const std::shared_ptr<char> pinned = AllocatePinned(device_.get(), 8).value();
  const auto address = reinterpret_cast<CUdeviceptr>(on_device.get());
  EXPECT_EQ(device_->api().cuMemcpyHtoDAsync(address, "gradient", 8, stream->get()), CUDA_SUCCESS);
  EXPECT_TRUE(device_->Copy(copy.get(), on_device.get(), 8, stream->get()).ok());
  // Freed behind the copy.
  on_device = nullptr;
  const auto copied = reinterpret_cast<CUdeviceptr>(copy.get());
  EXPECT_EQ(device_->api().cuMemcpyDtoHAsync(pinned.get(), copied, 8, stream->get()), CUDA_SUCCESS);
  Await(*device_->RecordEvent(stream->get()).value());
  EXPECT_EQ(std::string(pinned.get(), 8), "gradient");
  EXPECT_EQ(fake_->live_device_allocations, 1);
  EXPECT_NE(device_->Allocate(0, stream->get()).value(), nullptr);
}

TEST_F(CudaDeviceTest, GivesMemoryAlsoWhereItHasNoOrder) {
  const auto stream = CudaStream::Make(device_.get()).value();
  fake_->async_memory_result = CUDA_ERROR_NOT_SUPPORTED;
  std::shared_ptr<void> memory = device_->Allocate(8, stream->get()).value();
  EXPECT_EQ(fake_->live_device_allocations, 1);
  memory = nullptr;
  EXPECT_EQ(fake_->live_device_allocations, 0);
  fake_->async_memory_result = CUDA_ERROR_OUT_OF_MEMORY;
  const absl::Status status = device_->Allocate(8, stream->get()).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_NE(status.message().find("GPU 0 (Fake GPU 0) has no memory for a buffer of 8 bytes"), std::string::npos);
  fake_->async_memory_result = CUDA_SUCCESS;
}

// What a framework keeps for its next tensors; 0: nothing.
CUdeviceptr cached = 0;
int times_asked = 0;
const DriverApi* framework = nullptr;
void GiveUpCache(int ordinal) {
  EXPECT_EQ(ordinal, 0);
  ++times_asked;
  if (cached != 0) {
    EXPECT_EQ(framework->cuMemFree(std::exchange(cached, 0)), CUDA_SUCCESS);
  }
}

TEST_F(CudaDeviceTest, WhatOthersKeepIsGivenUpWhereMemoryIsShort) {
  const auto stream = CudaStream::Make(device_.get()).value();
  framework = &device_->api();
  EXPECT_TRUE(SetReclaim(GiveUpCache, 0));
  fake_->device_bytes_max = 12;
  for (const CUresult async : {CUDA_SUCCESS, CUDA_ERROR_NOT_SUPPORTED}) {
    fake_->async_memory_result = async;
    times_asked = 0;
    {
      const CudaDevice::Current current(device_.get());
      ASSERT_EQ(framework->cuMemAlloc(&cached, 8), CUDA_SUCCESS);
    }
    EXPECT_TRUE(device_->Allocate(4, stream->get()).ok());
    EXPECT_EQ(times_asked, 0) << "there is enough";
    EXPECT_EQ(framework->cuStreamSynchronize(stream->get()), CUDA_SUCCESS);
    EXPECT_TRUE(device_->Allocate(12, stream->get()).ok());
    EXPECT_EQ(times_asked, 1);
    EXPECT_EQ(framework->cuStreamSynchronize(stream->get()), CUDA_SUCCESS);
    EXPECT_TRUE(absl::IsResourceExhausted(device_->Allocate(13, stream->get()).status()));
    EXPECT_EQ(times_asked, 2) << "once for each";
  }
  device_->MakeRoom(12);
  EXPECT_EQ(times_asked, 2);
  device_->MakeRoom(13);
  EXPECT_EQ(times_asked, 3) << "for others";
  EXPECT_TRUE(SetReclaim(nullptr, 0));
  fake_->async_memory_result = CUDA_SUCCESS;
  fake_->device_bytes_max = FakeCuda::kUnlimited;
}

// It may wait for the device; the end of a process does not wait for ever.
TEST_F(CudaDeviceTest, WhatGivesUpMemoryIsWaitedForWithALimit) {
  std::atomic<bool> open{false};
  gate = &open;
  Reclaim* const waits = [](int) { WaitForGate(nullptr); };
  EXPECT_TRUE(SetReclaim(waits, 0));
  std::thread short_of_memory([this] { device_->MakeRoom(int64_t{1} << 60); });
  while (SetReclaim(waits, 0)) std::this_thread::yield();
  EXPECT_FALSE(SetReclaim(nullptr, 20));
  open = true;
  EXPECT_TRUE(SetReclaim(nullptr, 20000));
  short_of_memory.join();
}

// Of two recordings the second one finds the event that was kept for it, whatever others take meanwhile.
TEST_F(CudaDeviceTest, AnEventInReserveNeedsNoMemory) {
  const auto stream = CudaStream::Make(device_.get()).value();
  const int before = fake_->live_events;
  CudaDevice::SpareEvent reserved = device_->TakeEvent().value();
  const auto other = device_->RecordEvent(stream->get()).value();
  EXPECT_EQ(fake_->live_events, before + 2);
  const auto recorded = device_->RecordEvent(stream->get(), std::move(reserved)).value();
  EXPECT_EQ(fake_->live_events, before + 2);
  EXPECT_GT(recorded->order(), other->order());
  EXPECT_EQ(device_->api().cuStreamSynchronize(stream->get()), CUDA_SUCCESS);
  EXPECT_TRUE(recorded->Reached().value());
}

// A script may let its stream go before the result that was made there.
TEST_F(CudaDeviceTest, FreesMemoryOfAStreamThatIsGone) {
  auto stream = CudaStream::Make(device_.get()).value();
  std::shared_ptr<void> memory = device_->Allocate(8, stream->get()).value();
  stream = nullptr;
  EXPECT_EQ(fake_->live_device_allocations, 1);
  memory = nullptr;
  EXPECT_EQ(device_->api().cuStreamSynchronize(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(fake_->live_device_allocations, 0);
}

// Whatever the framework's stream is at.
TEST_F(CudaDeviceTest, MemoryForAResultIsThereAtOnceAndFreedInOrder) {
  const std::unique_ptr<CudaStream> stream = CudaStream::Make(device_.get()).value();
  std::atomic<bool> open{false};
  gate = &open;
  fake_->add_kernel("gate", WaitForGate, {});
  ASSERT_EQ(fake_->launch("gate", stream->get(), nullptr), CUDA_SUCCESS);
  device::Device::ForResult given = device_->AllocateResult(8, stream->get()).value();
  while (!static_cast<const CudaEvent*>(given.ready.get())->Reached().value()) std::this_thread::yield();
  given.memory.reset();
  EXPECT_EQ(fake_->live_device_allocations, 1) << "the stream is held up";
  open = true;
  EXPECT_EQ(device_->api().cuStreamSynchronize(stream->get()), CUDA_SUCCESS);
  EXPECT_EQ(fake_->live_device_allocations, 0);
}

TEST_F(CudaDeviceTest, TellsWhatCannotBeMendedFromTheRest) {
  EXPECT_TRUE(device_->ToStatus(CUDA_SUCCESS, "cuX").ok());
  EXPECT_TRUE(absl::IsUnavailable(device_->ToStatus(CUDA_ERROR_INVALID_VALUE, "cuX")));
  EXPECT_TRUE(absl::IsUnavailable(device_->ToStatus(CUDA_ERROR_DEINITIALIZED, "cuX"))) << "the process ends";
  EXPECT_TRUE(absl::IsResourceExhausted(device_->ToStatus(CUDA_ERROR_OUT_OF_MEMORY, "cuX")));
  EXPECT_EQ(FirstLoss(), "");
  const absl::Status sticky = device_->ToStatus(static_cast<CUresult>(700), "cuX");
  EXPECT_TRUE(absl::IsDataLoss(sticky));
  EXPECT_NE(sticky.message().find("GPU 0 (Fake GPU 0) has failed: cuX: "), std::string::npos) << sticky;
  EXPECT_NE(sticky.message().find("another one can"), std::string::npos) << sticky;
  EXPECT_TRUE(absl::IsDataLoss(device_->ToStatus(static_cast<CUresult>(719), "cuY")));
  EXPECT_EQ(FirstLoss(), sticky.message());
}

// After the test above, as the first loss is that of the process.
TEST_F(CudaDeviceTest, MemoryOfALostDeviceIsNotFreed) {
  const auto stream = CudaStream::Make(device_.get()).value();
  fake_->async_memory_result = CUDA_ERROR_NOT_SUPPORTED;
  std::shared_ptr<void> on_device = device_->Allocate(8, stream->get()).value();
  fake_->async_memory_result = CUDA_SUCCESS;
  std::shared_ptr<char> pinned = AllocatePinned(device_.get(), 8).value();
  const auto address = reinterpret_cast<CUdeviceptr>(on_device.get());
  char* const host = pinned.get();
  EXPECT_FALSE(device_->lost());
  EXPECT_TRUE(absl::IsDataLoss(device_->Lost("is lost")));
  EXPECT_TRUE(device_->lost());
  on_device = nullptr;
  pinned = nullptr;
  EXPECT_EQ(fake_->live_device_allocations, 1);
  EXPECT_EQ(fake_->live_host_allocations, 1);
  EXPECT_EQ(device_->api().cuMemFree(address), CUDA_SUCCESS);
  EXPECT_EQ(device_->api().cuMemFreeHost(host), CUDA_SUCCESS);
}

TEST_F(CudaDeviceTest, ACapturedStreamIsRefused) {
  EXPECT_TRUE(device_->Record(nullptr).ok());
  fake_->capturing = true;
  const absl::Status refused = device_->Record(nullptr).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_NE(refused.message().find("CUDA graph"), std::string::npos) << refused;
  fake_->capturing = false;
}

// What a script captures in its thread is not spoilt by what goes on in others.
TEST_F(CudaDeviceTest, ACaptureInAnotherThreadIsNotSpoilt) {
  const auto stream = CudaStream::Make(device_.get()).value();
  fake_->capture_elsewhere = true;
  Block(stream->get());
  const auto event = device_->RecordEvent(stream->get()).value();
  EXPECT_FALSE(event->Reached().value());
  open_ = true;
  Await(*event);
  fake_->async_memory_result = CUDA_ERROR_NOT_SUPPORTED;
  for (void* const memory : {device_->Allocate(8, stream->get()).value().get(),
                             static_cast<void*>(AllocatePinned(device_.get(), 8).value().get())}) {
    EXPECT_NE(memory, nullptr);
  }
  fake_->async_memory_result = CUDA_SUCCESS;
  EXPECT_EQ(fake_->captures_spoilt, 0);
  EXPECT_EQ(fake_->live_device_allocations, 0);
  EXPECT_EQ(fake_->live_host_allocations, 0);
  // The thread's own calls are as they were.
  EXPECT_EQ(device_->api().cuEventQuery(static_cast<CUevent>(event->handle())), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(fake_->captures_spoilt, 1);
  fake_->capture_elsewhere = false;
}

// Another thread could not name the stream that is meant.
TEST_F(CudaDeviceTest, AStreamOfEachThreadIsRefused) {
  const absl::Status refused = device_->Record(kCuStreamPerThread).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_NE(refused.message().find("per-thread default stream"), std::string::npos) << refused;
  EXPECT_NE(refused.message().find("torch.cuda.Stream"), std::string::npos) << "what to do instead: " << refused;
}

// The streams that have no maker are those of the device, whatever context the thread has.
TEST_F(CudaDeviceTest, DefaultStreamsAreThoseOfTheDevice) {
  fake_->devices = 2;
  const auto other = CudaDevice::Open(driver_.get(), 1).value();
  const auto stream = CudaStream::Make(other.get()).value();
  Block(stream->get());
  const auto blocked = other->RecordEvent(stream->get()).value();
  for (CUstream on : {CUstream{nullptr}, kCuStreamLegacy, kCuStreamPerThread}) {
    EXPECT_TRUE(blocked->MakeWait(on).ok());
    const CudaDevice::Current current(other.get());
    EXPECT_EQ(other->api().cuStreamQuery(on), CUDA_ERROR_NOT_READY);
  }
  const auto legacy = std::static_pointer_cast<const CudaEvent>(other->Record(kCuStreamLegacy).value());
  EXPECT_FALSE(legacy->Reached().value()) << "behind what was put on the default stream";
  open_ = true;
  Await(*legacy);
  fake_->devices = 1;
}

}  // namespace
}  // namespace farandole::worker::cuda
