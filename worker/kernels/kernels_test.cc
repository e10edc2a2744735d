#include "worker/kernels/kernels.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "worker/cuda/cuda_stream.h"
#include "worker/cuda/driver.h"
#include "worker/cuda/fake_cuda.h"
#include "worker/cuda/shared_object.h"
#include "worker/kernels/fake_kernels_testing.h"

namespace farandole::worker::kernels {
namespace {

using cuda::CUdeviceptr;

constexpr char kFake[] = "worker/cuda/fake_cuda.so";

std::atomic<bool>* gate = nullptr;
void WaitForGate(void**) {
  while (!*gate) std::this_thread::yield();
}

class KernelsTest : public testing::Test {
 protected:
  KernelsTest()
      : library_(cuda::SharedObject::Open(kFake).value()),
        fake_(reinterpret_cast<cuda::FakeCudaGetter*>(library_.Find(cuda::kFakeCudaGetter))()),
        driver_(cuda::Driver::Load(kFake).value()),
        device_(cuda::CudaDevice::Open(driver_.get(), 0).value()),
        stream_(cuda::CudaStream::Make(device_.get()).value()),
        current_(device_.get()) {}
  ~KernelsTest() override { fake_->module_result = cuda::CUDA_SUCCESS; }

  std::unique_ptr<const Kernels> Load() {
    AddFakeKernels(fake_);
    return Kernels::Load(device_.get(), "image").value();
  }

  template <typename T>
  CUdeviceptr OnDevice(const std::vector<T>& data) {
    memory_.push_back(device_->Allocate(static_cast<int64_t>(data.size() * sizeof(T)), stream_->get()).value());
    const auto memory = reinterpret_cast<CUdeviceptr>(memory_.back().get());
    EXPECT_EQ(device_->api().cuMemcpyHtoDAsync(memory, data.data(), data.size() * sizeof(T), stream_->get()),
              cuda::CUDA_SUCCESS);
    EXPECT_EQ(device_->api().cuStreamSynchronize(stream_->get()), cuda::CUDA_SUCCESS);
    return memory;
  }
  template <typename T>
  std::vector<T> FromDevice(CUdeviceptr memory, size_t count) {
    std::vector<T> data(count);
    EXPECT_EQ(device_->api().cuMemcpyDtoHAsync(data.data(), memory, count * sizeof(T), stream_->get()),
              cuda::CUDA_SUCCESS);
    EXPECT_EQ(device_->api().cuStreamSynchronize(stream_->get()), cuda::CUDA_SUCCESS);
    return data;
  }

  const cuda::SharedObject library_;
  cuda::FakeCuda* const fake_;
  const std::unique_ptr<const cuda::Driver> driver_;
  const std::unique_ptr<cuda::CudaDevice> device_;
  const std::unique_ptr<cuda::CudaStream> stream_;
  const cuda::CudaDevice::Current current_;
  std::vector<std::shared_ptr<void>> memory_;
};

constexpr char kRefused[] = "Farandole's GPU kernels cannot be loaded on GPU 0 (Fake GPU 0): ";

// The first test, as a process's fake keeps the kernels that it was given.
TEST_F(KernelsTest, SaysWhichKernelIsMissing) {
  const absl::Status status = Kernels::Load(device_.get(), "image").status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_TRUE(absl::StartsWith(status.message(), absl::StrCat(kRefused, "cuModuleGetFunction of move_uint8: ")))
      << status;
}

TEST_F(KernelsTest, SaysThatThisBuildHasNone) {
  const absl::Status status = Kernels::Load(device_.get(), "").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_EQ(status.message(),
            "this build of Farandole has no GPU kernels, since clang was not there when it was compiled");
}

TEST_F(KernelsTest, SaysWhyTheDriverRefuses) {
  fake_->module_result = static_cast<cuda::CUresult>(218);
  const absl::Status status = Kernels::Load(device_.get(), "image").status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_TRUE(absl::StartsWith(status.message(), absl::StrCat(kRefused, "cuModuleLoadData: "))) << status;
}

TEST_F(KernelsTest, AreUnloadedByAnyThread) {
  std::unique_ptr<const Kernels> kernels = Load();
  EXPECT_EQ(fake_->live_modules, 1);
  std::thread([&] { kernels.reset(); }).join();
  EXPECT_EQ(fake_->live_modules, 0);
}

TEST_F(KernelsTest, MovePiecesInOneLaunch) {
  const auto kernels = Load();
  const CUdeviceptr first = OnDevice<float>({1, 2, 3});
  const CUdeviceptr second = OnDevice<float>({4, 5});
  const CUdeviceptr buffer = OnDevice<float>({9, 9, 9, 9, 9, 9, 9});
  const CUdeviceptr table = OnDevice<MovePiece>(
      {{first, buffer, 3, 2, 1, 1, 0}, {0, buffer + 12, 4, 1, 1, 1, 0}, {second, buffer + 16, 6, 1, 0.25, 1, 0}});
  const absl::Status moved = kernels->Move(DataType::kFloat32, DataType::kFloat32, table, 3, 6, stream_->get());
  EXPECT_TRUE(moved.ok()) << moved;
  EXPECT_EQ(FromDevice<float>(buffer, 7), (std::vector<float>{2, 4, 6, 0, 1, 1.25, 9}));
}

TEST_F(KernelsTest, MoveEveryTypeByItsOwnKernel) {
  const auto kernels = Load();
  struct Case {
    DataType from, to;
    std::vector<uint8_t> in, out;  // an element; halved
  };
  const std::vector<Case> cases = {
      {DataType::kUint8, DataType::kUint8, {0xfe}, {0x7f}},
      {DataType::kInt8, DataType::kInt8, {0xfe}, {0xff}},
      {DataType::kUint16, DataType::kUint16, {0xfe, 0xff}, {0xff, 0x7f}},
      {DataType::kInt16, DataType::kInt16, {0xfe, 0xff}, {0xff, 0xff}},
      {DataType::kInt32, DataType::kInt32, {0xfe, 0xff, 0xff, 0xff}, {0xff, 0xff, 0xff, 0xff}},
      {DataType::kInt64, DataType::kInt64, {0, 0, 0, 0, 0, 0, 0, 2}, {0, 0, 0, 0, 0, 0, 0, 1}},
      {DataType::kFloat16, DataType::kFloat16, {0x00, 0x40}, {0x00, 0x3c}},
      {DataType::kFloat32, DataType::kFloat32, {0x00, 0x00, 0x00, 0x40}, {0x00, 0x00, 0x80, 0x3f}},
      {DataType::kFloat64, DataType::kFloat64, {0, 0, 0, 0, 0, 0, 0x00, 0x40}, {0, 0, 0, 0, 0, 0, 0xf0, 0x3f}},
      {DataType::kBool, DataType::kBool, {1}, {1}},
      {DataType::kBfloat16, DataType::kBfloat16, {0x00, 0x40}, {0x80, 0x3f}},
      {DataType::kInt16, DataType::kInt32, {0xfe, 0xff}, {0xff, 0xff, 0xff, 0xff}},
      {DataType::kInt32, DataType::kInt16, {0xfe, 0xff, 1, 0}, {0xff, 0xff}},
      {DataType::kUint16, DataType::kInt32, {0xfe, 0xff}, {0xff, 0x7f, 0, 0}},
      {DataType::kInt32, DataType::kUint16, {0xfe, 0xff, 1, 0}, {0xff, 0x7f}},
  };
  for (const Case& c : cases) {
    EXPECT_TRUE(Kernels::CanMove(c.from, c.to));
    const CUdeviceptr out = OnDevice(std::vector<uint8_t>(c.out.size()));
    const CUdeviceptr table = OnDevice<MovePiece>({{OnDevice(c.in), out, 1, 0.5, 1, 1, 0}});
    EXPECT_TRUE(kernels->Move(c.from, c.to, table, 1, 1, stream_->get()).ok());
    EXPECT_EQ(FromDevice<uint8_t>(out, c.out.size()), c.out) << Name(c.from) << " to " << Name(c.to);
  }
}

TEST_F(KernelsTest, RefuseACastThatDoesNotExist) {
  const absl::Status refused = Load()->Move(DataType::kInt16, DataType::kUint16, 0, 1, 1, stream_->get());
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_EQ(refused.message(), "no GPU kernel makes uint16 of int16");
  EXPECT_FALSE(Kernels::CanMove(DataType::kInt16, DataType::kUint16));
}

TEST_F(KernelsTest, MoveNothing) {
  const absl::Status moved = Load()->Move(DataType::kInt16, DataType::kInt16, 0, 0, 0, stream_->get());
  EXPECT_TRUE(moved.ok()) << moved;
}

TEST_F(KernelsTest, MoveInTheOrderOfTheStream) {
  std::atomic<bool> open{false};
  gate = &open;
  fake_->add_kernel("wait", WaitForGate, {});
  const auto kernels = Load();
  const CUdeviceptr a = OnDevice<int32_t>({1});
  const CUdeviceptr b = OnDevice<int32_t>({2});
  const CUdeviceptr c = OnDevice<int32_t>({3});
  const CUdeviceptr there = OnDevice<MovePiece>({{a, b, 1, 10, 1, 1, 0}});
  const CUdeviceptr on = OnDevice<MovePiece>({{b, c, 1, 10, 1, 1, 0}});
  EXPECT_EQ(fake_->launch("wait", stream_->get(), nullptr), cuda::CUDA_SUCCESS);
  EXPECT_TRUE(kernels->Move(DataType::kInt32, DataType::kInt32, there, 1, 1, stream_->get()).ok());
  EXPECT_TRUE(kernels->Move(DataType::kInt32, DataType::kInt32, on, 1, 1, stream_->get()).ok());
  EXPECT_EQ(device_->api().cuStreamQuery(stream_->get()), cuda::CUDA_ERROR_NOT_READY);
  open = true;
  EXPECT_EQ(FromDevice<int32_t>(c, 1), std::vector<int32_t>{100});
}

}  // namespace
}  // namespace farandole::worker::kernels
