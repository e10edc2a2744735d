#include "worker/nccl/tables.h"

#include <cstring>
#include <utility>

#include "worker/cuda/pinned_memory.h"

namespace farandole::worker::nccl {
namespace {

// A table serves lists of up to a power of two, so that lists of different lengths share a few.
constexpr size_t kBytesMin = 4096;

}  // namespace

absl::StatusOr<Tables::Kept> Tables::Put(const void* rows, size_t bytes, cuda::CUstream stream) {
  absl::StatusOr<Kept> table = Take(bytes, stream);
  if (!table.ok()) return table.status();
  std::memcpy((*table)->host_.get(), rows, bytes);
  const absl::Status status = device_->ToStatus(
      device_->api().cuMemcpyHtoDAsync((*table)->address(), (*table)->host_.get(), bytes, stream), "cuMemcpyHtoDAsync");
  if (!status.ok()) return status;
  return table;
}

absl::StatusOr<Tables::Kept> Tables::Take(size_t bytes, cuda::CUstream stream) {
  {
    absl::MutexLock lock(&mutex_);
    for (std::unique_ptr<Table>& spare : spare_) {
      if (spare->bytes_max_ < bytes) continue;
      std::swap(spare, spare_.back());
      Kept taken(spare_.back().release(), GiveBack{this});
      spare_.pop_back();
      return taken;
    }
  }
  auto made = std::make_unique<Table>();
  made->bytes_max_ = kBytesMin;
  while (made->bytes_max_ < bytes) made->bytes_max_ *= 2;
  const auto bytes_max = static_cast<int64_t>(made->bytes_max_);
  absl::StatusOr<std::shared_ptr<char>> host = cuda::AllocatePinned(device_, bytes_max);
  if (!host.ok()) return host.status();
  absl::StatusOr<std::shared_ptr<void>> on_device = device_->Allocate(bytes_max, stream);
  if (!on_device.ok()) return on_device.status();
  made->host_ = *std::move(host);
  made->device_ = *std::move(on_device);
  return Kept(made.release(), GiveBack{this});
}

void Tables::Keep(Table* table) {
  absl::MutexLock lock(&mutex_);
  spare_.emplace_back(table);
}

}  // namespace farandole::worker::nccl
