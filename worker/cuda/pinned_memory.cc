#include "worker/cuda/pinned_memory.h"

#include <algorithm>

namespace farandole::worker::cuda {

absl::StatusOr<std::shared_ptr<char>> AllocatePinned(CudaDevice* device, int64_t bytes) {
  const CudaDevice::Current current(device);
  void* memory = nullptr;
  const size_t size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  const absl::Status status =
      device->ToStatus(device->api().cuMemHostAlloc(&memory, size, CU_MEMHOSTALLOC_PORTABLE), "cuMemHostAlloc");
  if (!status.ok()) return status;
  return std::shared_ptr<char>(static_cast<char*>(memory), [device](char* given) {
    // The driver would wait for the device, for ever.
    if (device->lost()) return;
    const CudaDevice::Current freed(device);
    device->api().cuMemFreeHost(given);
  });
}

}  // namespace farandole::worker::cuda
