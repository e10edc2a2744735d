#ifndef FARANDOLE_WORKER_STAGING_DEVICE_COPIES_H_
#define FARANDOLE_WORKER_STAGING_DEVICE_COPIES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/cuda/cuda_device.h"
#include "worker/cuda/cuda_stream.h"
#include "worker/device/device.h"

namespace farandole::worker::staging {

struct Copy {
  void* device;
  char* host;
  int64_t bytes;
};

// Copies between the memory of a device and memory of the host that it reaches by itself: loads to the host, in their
// order on one stream, and stores to the device on another, so that both directions are used at a time. Of one thread.
class DeviceCopies {
 public:
  using Moment = std::shared_ptr<const cuda::CudaEvent>;

  // `device` outlives it.
  static absl::StatusOr<std::unique_ptr<DeviceCopies>> Make(cuda::CudaDevice* device);
  DeviceCopies(const DeviceCopies&) = delete;
  DeviceCopies& operator=(const DeviceCopies&) = delete;

  // Memory of at least so many bytes, while nothing is under way; it stays until more is wanted.
  absl::StatusOr<char*> Reserve(int64_t bytes);

  // Loads from now on come after this moment.
  absl::Status LoadAfter(const device::Event& moment);
  // Enqueue; the moment is when all of them are done.
  absl::StatusOr<Moment> Load(const std::vector<Copy>& loads);
  absl::StatusOr<Moment> Store(const std::vector<Copy>& stores);

  // After a failure: until the device is done with all memory, or does not seem to come to that.
  void Settle();

 private:
  DeviceCopies(cuda::CudaDevice* device, std::unique_ptr<cuda::CudaStream> loads,
               std::unique_ptr<cuda::CudaStream> stores)
      : device_(device), loads_(std::move(loads)), stores_(std::move(stores)) {}

  // Whether nothing is left on either stream; the device's status if that cannot be known.
  absl::StatusOr<bool> Idle() const;

  cuda::CudaDevice* const device_;
  const std::unique_ptr<cuda::CudaStream> loads_, stores_;
  std::shared_ptr<char> memory_;
  int64_t memory_bytes_ = 0;
};

}  // namespace farandole::worker::staging

#endif  // FARANDOLE_WORKER_STAGING_DEVICE_COPIES_H_
