#include "worker/cuda/fake_cuda.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "worker/cuda/driver.h"
#include "worker/cuda/shared_object.h"

namespace farandole::worker::cuda {
namespace {

constexpr char kFake[] = "worker/cuda/fake_cuda.so";

// How far the streams may go.
std::atomic<int> gate{0};
void WaitForGate(void** arguments) {
  while (gate < *static_cast<int*>(arguments[0])) std::this_thread::yield();
}

// Two streams of device 0, whose context is the thread's.
class FakeCudaTest : public testing::Test {
 protected:
  FakeCudaTest() {
    fake_.reset();
    fake_.devices = 2;
    fake_.add_kernel("gate", WaitForGate, {sizeof(int)});
    gate = 0;
    Check(api_.cuInit(0));
    UseDevice(0);
    for (CUstream& stream : streams_) Check(api_.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
  }
  ~FakeCudaTest() override {
    gate = 1000;
    for (const CUstream stream : streams_) {
      api_.cuStreamSynchronize(stream);
      api_.cuStreamDestroy(stream);
    }
    api_.cuCtxSetCurrent(nullptr);
    api_.cuDevicePrimaryCtxRelease(0);
    api_.cuDevicePrimaryCtxRelease(1);
    EXPECT_EQ(fake_.live_streams, 0);
    EXPECT_EQ(fake_.live_events, 0);
    EXPECT_EQ(fake_.live_device_allocations, 0);
    EXPECT_EQ(fake_.live_host_allocations, 0);
  }

  static void Check(CUresult result) { EXPECT_EQ(result, CUDA_SUCCESS); }
  void UseDevice(int device) {
    CUcontext context = nullptr;
    Check(api_.cuDevicePrimaryCtxRetain(&context, device));
    Check(api_.cuCtxSetCurrent(context));
  }
  // The stream waits until the gate is there.
  void Block(int stream, int at) {
    void* arguments[] = {&at};
    Check(fake_.launch("gate", streams_[stream], arguments));
  }
  void Await(CUevent event) {
    while (api_.cuEventQuery(event) == CUDA_ERROR_NOT_READY) std::this_thread::yield();
  }
  CUevent NewEvent() {
    CUevent event = nullptr;
    Check(api_.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return event;
  }

  const SharedObject library_ = SharedObject::Open(kFake).value();
  FakeCuda& fake_ = *reinterpret_cast<FakeCudaGetter*>(library_.Find(kFakeCudaGetter))();
  const std::unique_ptr<const Driver> driver_ = Driver::Load(kFake).value();
  const DriverApi& api_ = driver_->api();
  CUstream streams_[2] = {};
};

TEST_F(FakeCudaTest, AnEventThatWasNeverRecordedIsNoWait) {
  const CUevent event = NewEvent();
  Check(api_.cuEventQuery(event));
  Check(api_.cuStreamWaitEvent(streams_[0], event, 0));
  Check(api_.cuStreamQuery(streams_[0]));
  // Nor does one that is recorded later make the stream wait.
  Block(1, 1);
  Check(api_.cuEventRecord(event, streams_[1]));
  Check(api_.cuStreamSynchronize(streams_[0]));
  EXPECT_EQ(api_.cuEventQuery(event), CUDA_ERROR_NOT_READY);
  gate = 1;
  Await(event);
  Check(api_.cuEventDestroy(event));
}

TEST_F(FakeCudaTest, AnEventIsTheMomentThatWasRecordedLast) {
  const CUevent event = NewEvent();
  Block(0, 1);
  Check(api_.cuEventRecord(event, streams_[0]));
  EXPECT_EQ(api_.cuEventQuery(event), CUDA_ERROR_NOT_READY);
  // On a stream that is free.
  Check(api_.cuEventRecord(event, streams_[1]));
  Await(event);
  EXPECT_EQ(api_.cuStreamQuery(streams_[0]), CUDA_ERROR_NOT_READY);
  // And back to one that is not.
  Check(api_.cuEventRecord(event, streams_[0]));
  EXPECT_EQ(api_.cuEventQuery(event), CUDA_ERROR_NOT_READY);
  gate = 1;
  Await(event);
  Check(api_.cuEventDestroy(event));
}

// Though the event is recorded again, where it is reached at once, and destroyed, before the stream comes to the wait.
TEST_F(FakeCudaTest, AStreamWaitsForWhatWasRecordedThen) {
  const CUevent event = NewEvent();
  const CUevent before = NewEvent();
  const CUevent behind = NewEvent();
  Block(0, 2);
  Check(api_.cuEventRecord(event, streams_[0]));
  Block(1, 1);
  Check(api_.cuEventRecord(before, streams_[1]));
  Check(api_.cuStreamWaitEvent(streams_[1], event, 0));
  Check(api_.cuEventRecord(behind, streams_[1]));
  CUstream third = nullptr;
  Check(api_.cuStreamCreateWithPriority(&third, CU_STREAM_NON_BLOCKING, 0));
  Check(api_.cuEventRecord(event, third));
  Await(event);
  Check(api_.cuEventDestroy(event));
  gate = 1;
  Await(before);
  // Takes longer than what is behind would.
  for (int i = 0; i < 10; ++i) {
    Check(api_.cuEventRecord(before, third));
    Await(before);
  }
  EXPECT_EQ(api_.cuEventQuery(behind), CUDA_ERROR_NOT_READY);
  gate = 2;
  Await(behind);
  Check(api_.cuEventDestroy(before));
  Check(api_.cuEventDestroy(behind));
  Check(api_.cuStreamDestroy(third));
}

TEST_F(FakeCudaTest, EventsAreOfADevice) {
  const CUevent event = NewEvent();
  UseDevice(1);
  CUstream other = nullptr;
  Check(api_.cuStreamCreateWithPriority(&other, CU_STREAM_NON_BLOCKING, 0));
  EXPECT_EQ(api_.cuEventRecord(event, other), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(api_.cuEventRecord(event, nullptr), CUDA_ERROR_INVALID_HANDLE) << "the default stream of device 1";
  Check(api_.cuEventRecord(event, streams_[0]));
  Check(api_.cuStreamWaitEvent(other, event, 0));
  Check(api_.cuStreamSynchronize(other));
  float ms = 0;
  EXPECT_EQ(api_.cuEventElapsedTime(&ms, event, event), CUDA_ERROR_INVALID_HANDLE) << "without timing";
  Check(api_.cuStreamDestroy(other));
  Check(api_.cuEventDestroy(event));
}

TEST_F(FakeCudaTest, MemoryIsOfADevice) {
  CUdeviceptr memory[2] = {};
  Check(api_.cuMemAlloc(&memory[0], 8));
  UseDevice(1);
  Check(api_.cuMemAlloc(&memory[1], 8));
  for (const int device : {0, 1}) {
    int found = -1;
    Check(api_.cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory[device] + 4));
    EXPECT_EQ(found, device);
    EXPECT_EQ(fake_.device_of_memory(memory[device]), device);
    Check(api_.cuMemFree(memory[device]));
  }
  EXPECT_EQ(api_.cuMemFree(memory[0]), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(FakeCudaTest, MemoryEnds) {
  fake_.device_bytes_max = 100;
  fake_.host_bytes_max = 10;
  CUdeviceptr memory = 0;
  CUdeviceptr more = 0;
  void* pinned = nullptr;
  Check(api_.cuMemAlloc(&memory, 60));
  EXPECT_EQ(api_.cuMemAlloc(&more, 41), CUDA_ERROR_OUT_OF_MEMORY);
  Check(api_.cuMemAlloc(&more, 40));
  EXPECT_EQ(fake_.live_device_bytes, 100u);
  EXPECT_EQ(fake_.live_device_allocations, 2);
  Check(api_.cuMemFree(memory));
  Check(api_.cuMemFree(more));
  EXPECT_EQ(api_.cuMemHostAlloc(&pinned, 11, 0), CUDA_ERROR_OUT_OF_MEMORY);
  Check(api_.cuMemHostAlloc(&pinned, 10, 0));
  EXPECT_EQ(fake_.live_host_bytes, 10u);
  Check(api_.cuMemFreeHost(pinned));
  EXPECT_EQ(api_.cuMemFreeHost(pinned), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(FakeCudaTest, AFailedDeviceAnswersEveryCallWithItsError) {
  const CUevent event = NewEvent();
  CUdeviceptr memory = 0;
  CUdeviceptr more = 0;
  void* pinned = nullptr;
  Check(api_.cuMemAlloc(&memory, 8));
  Check(api_.cuMemHostAlloc(&pinned, 8, 0));
  Block(0, 1);
  Check(api_.cuMemcpyDtoHAsync(pinned, memory, 8, streams_[0]));
  const CUresult error = CUDA_ERROR_LAUNCH_FAILED;
  std::thread fails([&] { fake_.sticky_error = error; });
  // It does not wait for what may never end.
  while (api_.cuStreamSynchronize(streams_[0]) != error) std::this_thread::yield();
  fails.join();
  EXPECT_EQ(api_.cuEventRecord(event, streams_[1]), error);
  EXPECT_EQ(api_.cuEventQuery(event), error);
  EXPECT_EQ(api_.cuStreamQuery(streams_[1]), error);
  EXPECT_EQ(api_.cuMemAlloc(&more, 8), error);
  EXPECT_EQ(api_.cuMemcpyHtoDAsync(memory, pinned, 8, streams_[1]), error);
  EXPECT_EQ(fake_.launch("gate", streams_[1], nullptr), error);
  int count = 0;
  EXPECT_EQ(api_.cuDeviceGetCount(&count), error);
  // Texts are there, and what is given back counts as such. A stream may still use it.
  EXPECT_EQ(driver_->ToStatus(error, "cuX").message(), "cuX: CUDA_ERROR_LAUNCH_FAILED, unspecified launch failure");
  EXPECT_EQ(api_.cuMemFree(memory), error);
  EXPECT_EQ(api_.cuMemFreeHost(pinned), error);
  EXPECT_EQ(api_.cuEventDestroy(event), error);
  EXPECT_EQ(fake_.live_device_allocations + fake_.live_host_allocations + fake_.live_events, 0);
  gate = 1;
}

TEST_F(FakeCudaTest, ADestroyedStreamGoesOn) {
  CUstream third = nullptr;
  const CUevent event = NewEvent();
  Check(api_.cuStreamCreateWithPriority(&third, CU_STREAM_NON_BLOCKING, 0));
  int one = 1;
  void* arguments[] = {&one};
  Check(fake_.launch("gate", third, arguments));
  Check(api_.cuEventRecord(event, third));
  Check(api_.cuStreamDestroy(third));
  EXPECT_EQ(fake_.live_streams, 2);
  EXPECT_EQ(api_.cuEventQuery(event), CUDA_ERROR_NOT_READY);
  gate = 1;
  Await(event);
  Check(api_.cuEventDestroy(event));
}

TEST_F(FakeCudaTest, StreamsAreSlowBySeed) {
  fake_.delay_us_max = 1000;
  fake_.seed = 7;
  CUstream slow = nullptr;
  Check(api_.cuStreamCreateWithPriority(&slow, CU_STREAM_NON_BLOCKING, 0));
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) {
    int none = 0;
    void* arguments[] = {&none};
    Check(fake_.launch("gate", slow, arguments));
  }
  Check(api_.cuStreamSynchronize(slow));
  // 20 times half of it, less what chance takes away.
  EXPECT_GT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(4));
  Check(api_.cuStreamDestroy(slow));
  fake_.delay_us_max = 0;
}

TEST_F(FakeCudaTest, CountsSynchronizations) {
  const int before = fake_.stream_synchronizes;
  Check(api_.cuStreamQuery(streams_[0]));
  Check(api_.cuStreamSynchronize(streams_[0]));
  EXPECT_EQ(fake_.stream_synchronizes, before + 1);
}

}  // namespace
}  // namespace farandole::worker::cuda
