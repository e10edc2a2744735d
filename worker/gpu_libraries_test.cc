#include "worker/gpu_libraries.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

namespace farandole::worker {
namespace {

TEST(GpuLibraries, AreLookedForUntilTheyAreFoundAndThenStay) {
  setenv("FARANDOLE_CUDA_LIB", "/nowhere/libcuda.so.1", 1);
  EXPECT_TRUE(absl::IsNotFound(CudaDriver().status()));
  setenv("FARANDOLE_CUDA_LIB", "worker/cuda/fake_cuda.so", 1);
  absl::StatusOr<const cuda::Driver*> found[2];
  std::thread other([&found] { found[1] = CudaDriver(); });
  found[0] = CudaDriver();
  other.join();
  ASSERT_TRUE(found[0].ok()) << found[0].status();
  EXPECT_EQ(*found[0], *found[1]);
  setenv("FARANDOLE_CUDA_LIB", "/nowhere/libcuda.so.1", 1);
  EXPECT_EQ(*CudaDriver(), *found[0]);
}

TEST(GpuLibraries, NcclIsTheOneThatTheUserNamesBeforeThatOfTheWheel) {
  setenv("FARANDOLE_NCCL_LIB", "/nowhere/libnccl.so.2", 1);
  EXPECT_TRUE(absl::IsNotFound(Nccl("worker/cuda/fake_nccl.so").status()));
  setenv("FARANDOLE_NCCL_LIB", "", 1);
  const absl::StatusOr<const cuda::NcclLibrary*> found = Nccl("worker/cuda/fake_nccl.so");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)->version(), 21903);
  EXPECT_EQ(*Nccl(""), *found);
}

}  // namespace
}  // namespace farandole::worker
