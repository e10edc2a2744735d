#include "worker/cuda/driver.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "worker/cuda/fake_cuda.h"
#include "worker/cuda/shared_object.h"

namespace farandole::worker::cuda {
namespace {

constexpr char kFake[] = "worker/cuda/fake_cuda.so";

class DriverTest : public testing::Test {
 protected:
  DriverTest()
      : library_(SharedObject::Open(kFake).value()),
        fake_(reinterpret_cast<FakeCudaGetter*>(library_.Find(kFakeCudaGetter))()) {
    fake_->reset();
  }

  static std::string LoadError(const std::string& library) {
    return std::string(Driver::Load(library).status().message());
  }

  const SharedObject library_;
  FakeCuda* const fake_;
};

TEST_F(DriverTest, LoadsWithoutInitialising) {
  const auto driver = Driver::Load(kFake);
  ASSERT_TRUE(driver.ok()) << driver.status();
  EXPECT_EQ((*driver)->version(), 13000);
  EXPECT_NE((*driver)->path().find(kFake), std::string::npos) << (*driver)->path();
  EXPECT_FALSE(fake_->initialized);
}

TEST_F(DriverTest, NamesItsDevices) {
  fake_->devices = 2;
  const auto devices = (*Driver::Load(kFake))->Devices();
  ASSERT_TRUE(devices.ok()) << devices.status();
  EXPECT_EQ(*devices, (std::vector<std::string>{"Fake GPU 0", "Fake GPU 1"}));
  EXPECT_TRUE(fake_->initialized);
}

TEST_F(DriverTest, SaysThatThereIsNone) {
  const absl::Status status = Driver::Load("/nowhere/libcuda.so.1").status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_EQ(status.message(),
            "no CUDA driver could be loaded: /nowhere/libcuda.so.1: cannot open shared object file: No such file or "
            "directory");
}

TEST_F(DriverTest, RefusesAnOldOne) {
  fake_->version = 11080;
  EXPECT_TRUE(absl::IsFailedPrecondition(Driver::Load(kFake).status()));
  EXPECT_NE(LoadError(kFake).find("fake_cuda.so is too old: it serves CUDA 11.8; CUDA 12.0 or newer is needed"),
            std::string::npos)
      << LoadError(kFake);
}

// Drivers before CUDA 12.0 lack this entry point, as any other library does.
TEST_F(DriverTest, RefusesOneWithoutTheEntryPointThatFindsTheOthers) {
  const std::string error = LoadError("worker/cuda/fake_nccl.so");
  EXPECT_NE(error.find("fake_nccl.so is too old: it has no cuGetProcAddress_v2;"), std::string::npos) << error;
}

TEST_F(DriverTest, RefusesOneThatLacksAnEntryPoint) {
  fake_->missing = "cuEventQuery";
  EXPECT_NE(LoadError(kFake).find("fake_cuda.so has no cuEventQuery"), std::string::npos) << LoadError(kFake);
}

TEST_F(DriverTest, RefusesOneThatDoesNotTellItsVersion) {
  fake_->version_result = static_cast<CUresult>(34);
  EXPECT_NE(LoadError(kFake).find("does not tell its version: cuDriverGetVersion: error 34"), std::string::npos)
      << LoadError(kFake);
}

TEST_F(DriverTest, LeavesOutWhatANewerOneHas) {
  EXPECT_NE((*Driver::Load(kFake))->api().cuStreamGetDevice, nullptr);
  fake_->version = 12040;
  EXPECT_EQ((*Driver::Load(kFake))->api().cuStreamGetDevice, nullptr);
}

TEST_F(DriverTest, SaysWhyItHasNoDevice) {
  const auto driver = Driver::Load(kFake);
  fake_->init_result = CUDA_ERROR_NO_DEVICE;
  const absl::Status none = (*driver)->Devices().status();
  EXPECT_TRUE(absl::IsUnavailable(none));
  EXPECT_EQ(none.message(), "the CUDA driver " + (*driver)->path() +
                                " (CUDA 13.0): cuInit: CUDA_ERROR_NO_DEVICE, no CUDA-capable device is detected");
  fake_->init_result = CUDA_SUCCESS;
  fake_->devices = 0;
  EXPECT_NE((*driver)->Devices().status().message().find("it sees no device"), std::string::npos);
}

// With the primary context of device 0 as the thread's.
class DriverCallsTest : public DriverTest {
 protected:
  DriverCallsTest() : driver_(Driver::Load(kFake).value()), api_(driver_->api()) {
    CUcontext context = nullptr;
    EXPECT_TRUE(driver_->Devices().ok());
    Check(api_.cuDevicePrimaryCtxRetain(&context, 0));
    Check(api_.cuCtxSetCurrent(context));
    Check(api_.cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, -5));
  }
  ~DriverCallsTest() override {
    Check(api_.cuStreamDestroy(stream_));
    Check(api_.cuCtxSetCurrent(nullptr));
    Check(api_.cuDevicePrimaryCtxRelease(0));
  }

  void Check(CUresult result) { EXPECT_TRUE(driver_->ToStatus(result, "the call").ok()) << result; }

  const std::unique_ptr<const Driver> driver_;
  const DriverApi& api_;
  CUstream stream_ = nullptr;
};

TEST_F(DriverCallsTest, DescribeTheDevice) {
  CUuuid uuid;
  int value = 0;
  Check(api_.cuDeviceGetUuid(&uuid, 0));
  EXPECT_EQ(uuid.bytes[0], 1);
  Check(api_.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
  EXPECT_EQ(value, 9);
  CUcontext context = nullptr;
  Check(api_.cuCtxGetCurrent(&context));
  EXPECT_NE(context, nullptr);
  int least = 1;
  int greatest = 1;
  Check(api_.cuCtxGetStreamPriorityRange(&least, &greatest));
  EXPECT_LT(greatest, least);
  CUdevice device = -1;
  Check(api_.cuStreamGetDevice(stream_, &device));
  EXPECT_EQ(device, 0);
}

TEST_F(DriverCallsTest, MoveMemory) {
  CUdeviceptr memory[2];
  void* pinned = nullptr;
  Check(api_.cuMemAlloc(&memory[0], 8));
  Check(api_.cuMemAlloc(&memory[1], 8));
  Check(api_.cuMemHostAlloc(&pinned, 8, CU_MEMHOSTALLOC_PORTABLE));
  Check(api_.cuMemcpyHtoDAsync(memory[0], "gradient", 8, stream_));
  Check(api_.cuMemsetD8Async(memory[0], 'G', 1, stream_));
  Check(api_.cuMemcpyDtoDAsync(memory[1], memory[0], 8, stream_));
  Check(api_.cuMemcpyDtoHAsync(pinned, memory[1], 8, stream_));
  Check(api_.cuStreamSynchronize(stream_));
  Check(api_.cuStreamQuery(stream_));
  EXPECT_EQ(std::string(static_cast<char*>(pinned), 8), "Gradient");

  unsigned kind = 0;
  int device = -1;
  Check(api_.cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory[1] + 7));
  EXPECT_EQ(kind, CU_MEMORYTYPE_DEVICE);
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void* values[] = {&kind, &device};
  Check(api_.cuPointerGetAttributes(2, attributes, values, reinterpret_cast<CUdeviceptr>(pinned)));
  EXPECT_EQ(kind, CU_MEMORYTYPE_HOST);
  EXPECT_EQ(device, 0);
  Check(api_.cuPointerGetAttributes(2, attributes, values, reinterpret_cast<CUdeviceptr>(&kind)));
  EXPECT_EQ(kind, 0u);
  Check(api_.cuMemFreeHost(pinned));
  Check(api_.cuMemFree(memory[0]));
  Check(api_.cuMemFree(memory[1]));
}

TEST_F(DriverCallsTest, MemoryOfTheDeviceIsNotTheHosts) {
  CUdeviceptr memory;
  Check(api_.cuMemAlloc(&memory, 8));
  EXPECT_DEATH(*reinterpret_cast<volatile char*>(memory) = 1, "");
  Check(api_.cuMemFree(memory));
}

std::atomic<bool>* gate = nullptr;
std::atomic<int> result{0};

void WaitForGate(void**) {
  while (!*gate) std::this_thread::yield();
}
void Add(void** arguments) { result = *static_cast<int*>(arguments[0]) + *static_cast<int*>(arguments[1]); }

TEST_F(DriverCallsTest, OrderStreamsByEvents) {
  std::atomic<bool> open{false};
  gate = &open;
  result = 0;
  fake_->add_kernel("wait", WaitForGate, {});
  fake_->add_kernel("add", Add, {sizeof(int), sizeof(int)});
  CUmodule module = nullptr;
  CUfunction wait = nullptr;
  CUfunction add = nullptr;
  Check(api_.cuModuleLoadData(&module, "image"));
  Check(api_.cuModuleGetFunction(&wait, module, "wait"));
  Check(api_.cuModuleGetFunction(&add, module, "add"));
  EXPECT_EQ(api_.cuModuleGetFunction(&add, module, "multiply"), CUDA_ERROR_NOT_FOUND);
  Check(api_.cuModuleGetFunction(&add, module, "add"));
  CUstream other = nullptr;
  CUevent passed = nullptr;
  CUevent added = nullptr;
  Check(api_.cuStreamCreateWithPriority(&other, CU_STREAM_NON_BLOCKING, 0));
  Check(api_.cuEventCreate(&passed, CU_EVENT_DEFAULT));
  Check(api_.cuEventCreate(&added, CU_EVENT_DEFAULT));

  Check(api_.cuLaunchKernel(wait, 1, 1, 1, 1, 1, 1, 0, other, nullptr, nullptr));
  Check(api_.cuEventRecord(passed, other));
  Check(api_.cuStreamWaitEvent(stream_, passed, 0));
  int numbers[] = {3, 4};
  void* arguments[] = {&numbers[0], &numbers[1]};
  Check(api_.cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, stream_, arguments, nullptr));
  numbers[0] = 100;  // the launch has copied them
  Check(api_.cuEventRecord(added, stream_));
  EXPECT_EQ(api_.cuEventQuery(added), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(api_.cuStreamQuery(stream_), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(result, 0);
  open = true;
  Check(api_.cuStreamSynchronize(stream_));
  Check(api_.cuEventQuery(added));
  EXPECT_EQ(result, 7);
  float ms = -1;
  Check(api_.cuEventElapsedTime(&ms, passed, added));
  EXPECT_GE(ms, 0);

  Check(api_.cuEventDestroy(passed));
  Check(api_.cuEventDestroy(added));
  Check(api_.cuStreamDestroy(other));
  Check(api_.cuModuleUnload(module));
}

TEST_F(DriverCallsTest, WantAContext) {
  Check(api_.cuCtxSetCurrent(nullptr));
  CUevent event = nullptr;
  EXPECT_EQ(api_.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_ERROR_INVALID_CONTEXT);
}

}  // namespace
}  // namespace farandole::worker::cuda
