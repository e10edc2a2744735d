#include "worker/gpu_devices.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "worker/cuda/fake_nccl.h"
#include "worker/cuda/shared_object.h"

namespace farandole::worker {
namespace {

constexpr char kNccl[] = "worker/cuda/fake_nccl.so";

// What communicators learn in a process with this NCCL, before and after the user sets NCCL's variables.
void Describe(int version) {
  setenv("FARANDOLE_CUDA_LIB", "worker/cuda/fake_cuda.so", 1);
  setenv("FARANDOLE_NCCL_LIB", kNccl, 1);
  const auto library = cuda::SharedObject::Open(kNccl).value();
  reinterpret_cast<cuda::FakeNcclGetter*>(library.Find(cuda::kFakeNcclGetter))()->version = version;
  const nccl::Resources before = NcclResources(nullptr).value();
  setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  setenv("NCCL_HOSTID", "a", 1);
  const nccl::Resources after = NcclResources(nullptr).value();
  std::cerr << "shares " << before.shares_devices << " on '" << before.host_id << "', then " << after.shares_devices
            << " on '" << after.host_id << "'";
  _Exit(0);
}

// An NCCL that is loaded stays: each version has a process of its own.
TEST(GpuDevices, RanksShareOneWhereNcclServesThem) {
  EXPECT_EXIT(Describe(22999), testing::ExitedWithCode(0), "shares 0 on '', then 0 on 'a'");
  EXPECT_EXIT(Describe(23000), testing::ExitedWithCode(0), "shares 0 on '', then 1 on 'a'");
}

}  // namespace
}  // namespace farandole::worker
