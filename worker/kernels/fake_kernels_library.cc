// fake_kernels.so, for tests that are not written in C++.
#include "worker/cuda/fake_cuda.h"
#include "worker/cuda/shared_object.h"
#include "worker/kernels/fake_kernels_testing.h"

// Gives the fake driver at this path so many devices, and our kernels. Work on them comes up to so much too late.
extern "C" __attribute__((visibility("default"))) void farandole_prepare_fake_gpus(const char* driver, int devices,
                                                                                   int delay_us_max) {
  namespace cuda = farandole::worker::cuda;
  // The driver stays: it has work on its threads.
  static auto* const library = new cuda::SharedObject(cuda::SharedObject::Open(driver).value());
  cuda::FakeCuda& fake = *reinterpret_cast<cuda::FakeCudaGetter*>(library->Find(cuda::kFakeCudaGetter))();
  fake.devices = devices;
  fake.delay_us_max = delay_us_max;
  farandole::worker::kernels::AddFakeKernels(&fake);
}
