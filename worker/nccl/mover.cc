#include "worker/nccl/mover.h"

#include <cstring>
#include <utility>

#include "worker/cuda/pinned_memory.h"

namespace farandole::worker::nccl {
namespace {

// A table serves lists of up to a power of two, so that lists of different lengths share a few.
constexpr size_t kPiecesMin = 64;

}  // namespace

absl::StatusOr<Mover::Kept> Mover::Move(DataType from, DataType to, const std::vector<kernels::MovePiece>& pieces,
                                        cuda::CUstream stream) {
  absl::StatusOr<Kept> table = Take(pieces.size(), stream);
  if (!table.ok()) return table.status();
  const size_t bytes = pieces.size() * sizeof(kernels::MovePiece);
  std::memcpy((*table)->host.get(), pieces.data(), bytes);
  const auto on_device = reinterpret_cast<cuda::CUdeviceptr>((*table)->device.get());
  absl::Status status = device_->ToStatus(
      device_->api().cuMemcpyHtoDAsync(on_device, (*table)->host.get(), bytes, stream), "cuMemcpyHtoDAsync");
  if (status.ok()) {
    status = kernels_->Move(from, to, on_device, static_cast<int>(pieces.size()), pieces.back().end, stream);
  }
  if (!status.ok()) return status;
  return table;
}

absl::StatusOr<Mover::Kept> Mover::Take(size_t pieces, cuda::CUstream stream) {
  {
    absl::MutexLock lock(&mutex_);
    for (std::unique_ptr<Table>& spare : spare_) {
      if (spare->pieces_max < pieces) continue;
      std::swap(spare, spare_.back());
      Kept taken(spare_.back().release(), GiveBack{this});
      spare_.pop_back();
      return taken;
    }
  }
  size_t pieces_max = kPiecesMin;
  while (pieces_max < pieces) pieces_max *= 2;
  const int64_t bytes = static_cast<int64_t>(pieces_max * sizeof(kernels::MovePiece));
  absl::StatusOr<std::shared_ptr<char>> host = cuda::AllocatePinned(device_, bytes);
  if (!host.ok()) return host.status();
  absl::StatusOr<std::shared_ptr<void>> on_device = device_->Allocate(bytes, stream);
  if (!on_device.ok()) return on_device.status();
  return Kept(new Table{*std::move(host), *std::move(on_device), pieces_max}, GiveBack{this});
}

void Mover::Keep(Table* table) {
  absl::MutexLock lock(&mutex_);
  spare_.emplace_back(table);
}

}  // namespace farandole::worker::nccl
