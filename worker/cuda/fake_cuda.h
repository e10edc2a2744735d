#ifndef FARANDOLE_WORKER_CUDA_FAKE_CUDA_H_
#define FARANDOLE_WORKER_CUDA_FAKE_CUDA_H_

#include <cstddef>
#include <vector>

#include "worker/cuda/driver_abi.h"

// A libcuda for tests on machines without a GPU, fake_cuda.so, and what a test sets in it. Its device memory faults
// when the host touches it, its streams are threads, its kernels are functions of the test. It proves Farandole's
// logic, not NVIDIA's.
namespace farandole::worker::cuda {

// Runs on a stream's thread. `arguments` as those of cuLaunchKernel, copied at the launch.
using FakeKernel = void (*)(void** arguments);

struct FakeCuda {
  CUresult init_result = CUDA_SUCCESS;
  CUresult version_result = CUDA_SUCCESS;
  CUresult module_result = CUDA_SUCCESS;  // of loading one
  int version = 13000;
  int devices = 1;
  // An entry point that this driver does not have; nullptr: it has all.
  const char* missing = nullptr;
  bool initialized = false;

  // The host's address of device memory, for kernels; nullptr: it is none.
  char* (*on_device)(CUdeviceptr pointer);
  // `sizes` of its arguments in bytes. Modules, whatever their image, have all kernels that were added.
  void (*add_kernel)(const char* name, FakeKernel kernel, const std::vector<size_t>& sizes);
  // As cuLaunchKernel, by name: how the fake NCCL works.
  CUresult (*launch)(const char* name, CUstream stream, void** arguments);
};

// Exported under this name: the one of this process.
using FakeCudaGetter = FakeCuda*();
inline constexpr char kFakeCudaGetter[] = "fake_cuda";

}  // namespace farandole::worker::cuda

#endif  // FARANDOLE_WORKER_CUDA_FAKE_CUDA_H_
