#include "worker/staging/device_copies.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "worker/cuda/pinned_memory.h"

namespace farandole::worker::staging {
namespace {

constexpr int64_t kMemoryBytesMin = 1 << 20;
constexpr std::chrono::microseconds kPause(10);
// What comes before on the framework's stream may never end.
constexpr int64_t kGiveUpMs = 1000;

// To free it the driver would wait for the device, perhaps for ever.
void KeepForEver(std::shared_ptr<char> memory) {
  static auto* const mutex = new absl::Mutex();
  static auto* const kept = new std::vector<std::shared_ptr<char>>();
  absl::MutexLock lock(mutex);
  kept->push_back(std::move(memory));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceCopies>> DeviceCopies::Make(cuda::CudaDevice* device) {
  absl::StatusOr<std::unique_ptr<cuda::CudaStream>> loads = cuda::CudaStream::Make(device);
  if (!loads.ok()) return loads.status();
  absl::StatusOr<std::unique_ptr<cuda::CudaStream>> stores = cuda::CudaStream::Make(device);
  if (!stores.ok()) return stores.status();
  return std::unique_ptr<DeviceCopies>(new DeviceCopies(device, *std::move(loads), *std::move(stores)));
}

absl::StatusOr<char*> DeviceCopies::Reserve(int64_t bytes) {
  if (memory_ != nullptr && bytes <= memory_bytes_) return memory_.get();
  const int64_t wanted = std::max(bytes, kMemoryBytesMin);
  memory_ = nullptr;
  memory_bytes_ = 0;
  absl::StatusOr<std::shared_ptr<char>> memory = cuda::AllocatePinned(device_, wanted);
  if (!memory.ok()) return memory.status();
  memory_ = *std::move(memory);
  memory_bytes_ = wanted;
  return memory_.get();
}

absl::Status DeviceCopies::LoadAfter(const device::Event& moment) { return moment.MakeWait(loads_->get()); }

absl::StatusOr<DeviceCopies::Moment> DeviceCopies::Load(const std::vector<Copy>& loads) {
  const cuda::CudaDevice::Current current(device_);
  for (const Copy& load : loads) {
    const absl::Status status =
        device_->ToStatus(device_->api().cuMemcpyDtoHAsync(load.host, reinterpret_cast<cuda::CUdeviceptr>(load.device),
                                                           static_cast<size_t>(load.bytes), loads_->get()),
                          "cuMemcpyDtoHAsync");
    if (!status.ok()) return status;
  }
  return device_->RecordEvent(loads_->get());
}

absl::StatusOr<DeviceCopies::Moment> DeviceCopies::Store(const std::vector<Copy>& stores) {
  const cuda::CudaDevice::Current current(device_);
  for (const Copy& store : stores) {
    const absl::Status status = device_->ToStatus(
        device_->api().cuMemcpyHtoDAsync(reinterpret_cast<cuda::CUdeviceptr>(store.device), store.host,
                                         static_cast<size_t>(store.bytes), stores_->get()),
        "cuMemcpyHtoDAsync");
    if (!status.ok()) return status;
  }
  return device_->RecordEvent(stores_->get());
}

void DeviceCopies::Settle() {
  const TimePoint give_up = Clock::Monotonic().Now().PlusMs(kGiveUpMs);
  while (Clock::Monotonic().Now() < give_up) {
    const absl::StatusOr<bool> idle = Idle();
    if (!idle.ok() || *idle) return;
    std::this_thread::sleep_for(kPause);
  }
  KeepForEver(std::exchange(memory_, nullptr));
  memory_bytes_ = 0;
}

// Asks the streams themselves: an event could fail for want of memory.
absl::StatusOr<bool> DeviceCopies::Idle() const {
  const cuda::CudaDevice::Current current(device_);
  for (const cuda::CudaStream* stream : {loads_.get(), stores_.get()}) {
    const cuda::CUresult result = device_->api().cuStreamQuery(stream->get());
    if (result == cuda::CUDA_ERROR_NOT_READY) return false;
    if (result != cuda::CUDA_SUCCESS) return device_->ToStatus(result, "cuStreamQuery");
  }
  return true;
}

}  // namespace farandole::worker::staging
