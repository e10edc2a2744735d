#ifndef FARANDOLE_WORKER_CUDA_PINNED_MEMORY_H_
#define FARANDOLE_WORKER_CUDA_PINNED_MEMORY_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "worker/cuda/cuda_device.h"

namespace farandole::worker::cuda {

// Host memory that a device copies from and to while the host goes on. Freed with the last copy of the pointer, when
// nothing that was put on a stream uses it any more; not at all once the device is lost. `device` outlives it.
// RESOURCE_EXHAUSTED: there is not so much.
absl::StatusOr<std::shared_ptr<char>> AllocatePinned(CudaDevice* device, int64_t bytes);

}  // namespace farandole::worker::cuda

#endif  // FARANDOLE_WORKER_CUDA_PINNED_MEMORY_H_
