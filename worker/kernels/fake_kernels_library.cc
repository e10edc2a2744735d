// fake_kernels.so, for tests that are not written in C++: what they set in the fakes of the CUDA driver and of NCCL.
#include <cstdint>

#include "worker/cuda/fake_cuda.h"
#include "worker/cuda/fake_nccl.h"
#include "worker/cuda/shared_object.h"
#include "worker/kernels/fake_kernels_testing.h"

#define FARANDOLE_TEST_API extern "C" __attribute__((visibility("default")))

namespace {

namespace cuda = farandole::worker::cuda;

// The fake at this path. It stays: it has work on its threads.
template <typename Getter>
auto& FakeAt(const char* path, const char* getter) {
  static auto* const library = new cuda::SharedObject(cuda::SharedObject::Open(path).value());
  return *reinterpret_cast<Getter*>(library->Find(getter))();
}

}  // namespace

// Gives the fake driver so many devices, and our kernels. Work on them comes up to so much too late.
FARANDOLE_TEST_API void farandole_prepare_fake_gpus(const char* driver, int devices, int delay_us_max) {
  auto& fake = FakeAt<cuda::FakeCudaGetter>(driver, cuda::kFakeCudaGetter);
  fake.devices = devices;
  fake.delay_us_max = delay_us_max;
  farandole::worker::kernels::AddFakeKernels(&fake);
}

// From now on there is room for so many more bytes on all devices together; below 0: for any number.
FARANDOLE_TEST_API void farandole_limit_fake_gpus(const char* driver, int64_t bytes) {
  auto& fake = FakeAt<cuda::FakeCudaGetter>(driver, cuda::kFakeCudaGetter);
  fake.device_bytes_max = bytes < 0 ? cuda::FakeCuda::kUnlimited : fake.live_device_bytes + static_cast<size_t>(bytes);
}

// From now on every call of the driver in this process answers as after a kernel that has gone wrong.
FARANDOLE_TEST_API void farandole_fail_fake_gpus(const char* driver) {
  FakeAt<cuda::FakeCudaGetter>(driver, cuda::kFakeCudaGetter).sticky_error = cuda::CUDA_ERROR_LAUNCH_FAILED;
}

// From now on communicators in this process have lost a connection, or not.
FARANDOLE_TEST_API void farandole_disconnect_fake_nccl(const char* nccl, int disconnected) {
  auto& fake = FakeAt<cuda::FakeNcclGetter>(nccl, cuda::kFakeNcclGetter);
  fake.async_error = cuda::ncclRemoteError;
  fake.async_text = "the test has cut a connection";
  fake.async_error_after = disconnected != 0 ? 0 : cuda::FakeNccl::kNever;
}
