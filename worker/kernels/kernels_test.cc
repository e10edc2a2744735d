#include "worker/kernels/kernels.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "worker/cuda/fake_cuda.h"
#include "worker/cuda/shared_object.h"
#include "worker/kernels/fake_kernels_testing.h"

namespace farandole::worker::kernels {
namespace {

using cuda::CUcontext;
using cuda::CUdeviceptr;
using cuda::CUresult;
using cuda::CUstream;

constexpr char kFake[] = "worker/cuda/fake_cuda.so";

class KernelsTest : public testing::Test {
 protected:
  KernelsTest()
      : library_(cuda::SharedObject::Open(kFake).value()),
        fake_(reinterpret_cast<cuda::FakeCudaGetter*>(library_.Find(cuda::kFakeCudaGetter))()),
        driver_(cuda::Driver::Load(kFake).value()),
        api_(driver_->api()) {
    EXPECT_TRUE(driver_->Devices().ok());
    Check(api_.cuDevicePrimaryCtxRetain(&context_, 0));
    Check(api_.cuCtxSetCurrent(context_));
    Check(api_.cuStreamCreateWithPriority(&stream_, cuda::CU_STREAM_NON_BLOCKING, 0));
  }
  ~KernelsTest() override {
    Check(api_.cuStreamDestroy(stream_));
    for (CUdeviceptr memory : memory_) Check(api_.cuMemFree(memory));
    Check(api_.cuCtxSetCurrent(nullptr));
    Check(api_.cuDevicePrimaryCtxRelease(0));
  }

  void Check(CUresult result) { EXPECT_TRUE(driver_->ToStatus(result, "the call").ok()) << result; }

  CUdeviceptr OnDevice(const void* data, size_t bytes) {
    CUdeviceptr memory = 0;
    Check(api_.cuMemAlloc(&memory, bytes));
    Check(api_.cuMemcpyHtoDAsync(memory, data, bytes, stream_));
    Check(api_.cuStreamSynchronize(stream_));
    memory_.push_back(memory);
    return memory;
  }
  template <typename T>
  CUdeviceptr OnDevice(const std::vector<T>& data) {
    return OnDevice(data.data(), data.size() * sizeof(T));
  }
  template <typename T>
  std::vector<T> FromDevice(CUdeviceptr memory, size_t count) {
    std::vector<T> data(count);
    Check(api_.cuMemcpyDtoHAsync(data.data(), memory, count * sizeof(T), stream_));
    Check(api_.cuStreamSynchronize(stream_));
    return data;
  }

  const cuda::SharedObject library_;
  cuda::FakeCuda* const fake_;
  const std::unique_ptr<const cuda::Driver> driver_;
  const cuda::DriverApi& api_;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  std::vector<CUdeviceptr> memory_;
};

// Before the fake has kernels, of which a process keeps those that it was given.
TEST_F(KernelsTest, SaysWhichKernelIsMissing) {
  const absl::Status status = Kernels::Load(driver_.get(), "image").status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_EQ(status.message(), "the CUDA driver " + driver_->path() +
                                  " does not take Farandole's GPU kernels: cuModuleGetFunction of move_uint8: "
                                  "error 500");
}

TEST_F(KernelsTest, SaysThatThisBuildHasNone) {
  const absl::Status status = Kernels::Load(driver_.get(), "").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_EQ(status.message(),
            "this build of Farandole has no GPU kernels, since clang was not there when it was compiled");
}

TEST_F(KernelsTest, SaysWhyTheDriverRefuses) {
  Check(api_.cuCtxSetCurrent(nullptr));
  const absl::Status status = Kernels::Load(driver_.get(), "image").status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_NE(status.message().find("does not take Farandole's GPU kernels: cuModuleLoadData: error 201"),
            absl::string_view::npos)
      << status;
}

TEST_F(KernelsTest, MovePiecesInOneLaunch) {
  AddFakeKernels(fake_);
  const auto kernels = Kernels::Load(driver_.get(), "image");
  ASSERT_TRUE(kernels.ok()) << kernels.status();
  const CUdeviceptr first = OnDevice(std::vector<float>{1, 2, 3});
  const CUdeviceptr second = OnDevice(std::vector<float>{4, 5});
  const CUdeviceptr buffer = OnDevice(std::vector<float>(6, 9.f));
  const std::vector<MovePiece> pieces = {
      {first, buffer, 3, 2, 1, 1, 0}, {0, buffer + 12, 4, 1, 1, 1, 0}, {second, buffer + 16, 6, 1, 0.25, 1, 0}};
  const CUdeviceptr table = OnDevice(pieces);
  const absl::Status moved = (*kernels)->Move(DataType::kFloat32, DataType::kFloat32, table, 3, 6, stream_);
  EXPECT_TRUE(moved.ok()) << moved;
  EXPECT_EQ(FromDevice<float>(buffer, 6), (std::vector<float>{2, 4, 6, 0, 1, 1.25}));
}

TEST_F(KernelsTest, RefuseACastThatDoesNotExist) {
  AddFakeKernels(fake_);
  const auto kernels = Kernels::Load(driver_.get(), "image").value();
  const absl::Status refused = kernels->Move(DataType::kInt16, DataType::kUint16, 0, 1, 1, stream_);
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_EQ(refused.message(), "no GPU kernel makes uint16 of int16");
  EXPECT_FALSE(Kernels::CanMove(DataType::kInt16, DataType::kUint16));
  EXPECT_TRUE(Kernels::CanMove(DataType::kInt16, DataType::kInt32));
  EXPECT_TRUE(Kernels::CanMove(DataType::kBool, DataType::kBool));
}

}  // namespace
}  // namespace farandole::worker::kernels
