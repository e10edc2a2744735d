#ifndef FARANDOLE_WORKER_NCCL_MOVER_H_
#define FARANDOLE_WORKER_NCCL_MOVER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "proto/types.h"
#include "worker/cuda/cuda_device.h"
#include "worker/kernels/kernels.h"
#include "worker/kernels/move_piece.h"

namespace farandole::worker::nccl {

// Moves the elements of many tensors by one kernel, whose list of them it puts into the device's memory. Any thread.
class Mover {
 public:
  // Both outlive it.
  Mover(const kernels::Kernels* kernels, cuda::CudaDevice* device) : kernels_(kernels), device_(device) {}
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;

  // What has to be kept until the device is done with a move; before the mover is destroyed.
  class Table;
  struct GiveBack {
    Mover* mover;
    void operator()(Table* table) const { mover->Keep(table); }
  };
  using Kept = std::unique_ptr<Table, GiveBack>;

  // Enqueues the move; `pieces` as the kernel reads them, not empty; always on the same stream, which outlives the
  // mover. The device's context is current. The statuses of CudaDevice::ToStatus.
  absl::StatusOr<Kept> Move(DataType from, DataType to, const std::vector<kernels::MovePiece>& pieces,
                            cuda::CUstream stream);

  // In host memory that the device reads, and in its own.
  class Table {
   public:
    std::shared_ptr<char> host;
    std::shared_ptr<void> device;
    size_t pieces_max = 0;
  };

 private:
  absl::StatusOr<Kept> Take(size_t pieces, cuda::CUstream stream);
  void Keep(Table* table);

  const kernels::Kernels* const kernels_;
  cuda::CudaDevice* const device_;
  absl::Mutex mutex_;
  // As many as were ever under way at a time.
  std::vector<std::unique_ptr<Table>> spare_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole::worker::nccl

#endif  // FARANDOLE_WORKER_NCCL_MOVER_H_
