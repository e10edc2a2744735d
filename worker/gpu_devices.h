#ifndef FARANDOLE_WORKER_GPU_DEVICES_H_
#define FARANDOLE_WORKER_GPU_DEVICES_H_

#include <string>

#include "absl/status/statusor.h"
#include "worker/cuda/cuda_device.h"
#include "worker/kernels/kernels.h"
#include "worker/nccl/nccl_communicator.h"

// The GPUs of this process, each opened when it is first asked for. What was opened stays until the process ends, since
// tensors of the script may lie there. Any thread.
namespace farandole::worker {

// The codes of CudaDriver() and CudaDevice::Open. Initialises CUDA in this process.
absl::StatusOr<cuda::CudaDevice*> GpuDevice(int ordinal);

// The codes of Kernels::Load.
absl::StatusOr<const kernels::Kernels*> GpuKernels(cuda::CudaDevice* device);

// As cuda::FirstLoss.
std::string GpuFailure();

// As cuda::SetReclaim.
bool SetGpuReclaim(cuda::Reclaim* reclaim, int timeout_ms);

// What communicators by NCCL need; `watch` outlives them. The codes of Nccl(), also where there is no driver.
absl::StatusOr<nccl::Resources> NcclResources(nccl::Watch* watch);

}  // namespace farandole::worker

#endif  // FARANDOLE_WORKER_GPU_DEVICES_H_
