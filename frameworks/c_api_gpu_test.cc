#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "frameworks/c_api.h"
#include "worker/gpu_devices.h"
#include "worker/kernels/kernel_image.h"

namespace {

constexpr char kWheel[] = "worker/cuda/fake_nccl.so";

int Find(int which, const char* wheel, int* number, std::string* found) {
  const char* text = nullptr;
  const int code = farandole_gpu_library(which, wheel, number, &text);
  *found = text == nullptr ? "" : text;
  return code;
}

int Used() { return farandole::worker::kernels::KernelImage().empty() ? 0 : 1; }

TEST(CApiGpuTest, WhatIsMissingIsSaidInASentence) {
  setenv("FARANDOLE_CUDA_LIB", "/nowhere/libcuda.so.1", 1);
  setenv("FARANDOLE_NCCL_LIB", "/nowhere/libnccl.so.2", 1);
  int number = 7;
  std::string text;
  EXPECT_EQ(Find(FARANDOLE_CUDA_DRIVER, nullptr, &number, &text), FARANDOLE_UNAVAILABLE);
  EXPECT_NE(std::string(farandole_last_error()).find("no CUDA driver could be loaded: /nowhere/"), std::string::npos);
  EXPECT_EQ(Find(FARANDOLE_CUDA_DEVICES, nullptr, &number, &text), FARANDOLE_UNAVAILABLE);
  EXPECT_EQ(Find(FARANDOLE_NCCL, kWheel, &number, &text), FARANDOLE_UNAVAILABLE);
  EXPECT_NE(std::string(farandole_last_error()).find("no NCCL could be loaded: /nowhere/"), std::string::npos);
  EXPECT_EQ(number, 7);
}

// 1: they are there, and collectives use them, if there was a compiler for the kernels.
TEST(CApiGpuTest, WhatIsThereIsDescribed) {
  setenv("FARANDOLE_CUDA_LIB", "worker/cuda/fake_cuda.so", 1);
  unsetenv("FARANDOLE_NCCL_LIB");
  int number = 0;
  std::string text;
  EXPECT_EQ(Find(FARANDOLE_CUDA_DRIVER, nullptr, &number, &text), Used());
  EXPECT_EQ(number, 13000);
  EXPECT_EQ(text.find("CUDA 13.0 ("), 0u) << text;
  EXPECT_EQ(Find(FARANDOLE_CUDA_DEVICES, nullptr, &number, &text), Used());
  EXPECT_EQ(number, 1);
  EXPECT_EQ(text, "Fake GPU 0");
  EXPECT_EQ(Find(FARANDOLE_NCCL, kWheel, &number, &text), Used());
  EXPECT_EQ(number, 21903);
  EXPECT_EQ(text.find("NCCL 2.19.3 ("), 0u) << text;
  EXPECT_NE(text.find(kWheel), std::string::npos) << text;
}

TEST(CApiGpuTest, AFailureIsRemembered) {
  EXPECT_EQ(farandole_gpu_failure(), nullptr);
  const farandole::worker::cuda::CudaDevice* const device = farandole::worker::GpuDevice(0).value();
  EXPECT_TRUE(absl::IsDataLoss(device->ToStatus(static_cast<farandole::worker::cuda::CUresult>(700), "cuX")));
  EXPECT_NE(std::string(farandole_gpu_failure()).find("GPU 0 (Fake GPU 0) has failed: cuX"), std::string::npos);
}

TEST(CApiGpuTest, BadArgumentsAreRefused) {
  int number = 0;
  const char* text = nullptr;
  EXPECT_EQ(farandole_gpu_library(FARANDOLE_NCCL, nullptr, nullptr, &text), FARANDOLE_INVALID_ARGUMENT);
  EXPECT_EQ(farandole_gpu_library(FARANDOLE_NCCL, nullptr, &number, nullptr), FARANDOLE_INVALID_ARGUMENT);
  EXPECT_EQ(farandole_gpu_library(0, nullptr, &number, &text), FARANDOLE_INVALID_ARGUMENT);
  EXPECT_EQ(farandole_gpu_library(4, nullptr, &number, &text), FARANDOLE_INVALID_ARGUMENT);
}

}  // namespace
