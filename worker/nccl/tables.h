#ifndef FARANDOLE_WORKER_NCCL_TABLES_H_
#define FARANDOLE_WORKER_NCCL_TABLES_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "worker/cuda/cuda_device.h"

namespace farandole::worker::nccl {

// Puts lists that kernels read into the device's memory. Any thread.
class Tables {
 public:
  // The device outlives it.
  explicit Tables(cuda::CudaDevice* device) : device_(device) {}
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;

  // A list in host memory that the device reads, and in its own.
  class Table {
   public:
    cuda::CUdeviceptr address() const { return reinterpret_cast<cuda::CUdeviceptr>(device_.get()); }

   private:
    friend class Tables;
    std::shared_ptr<char> host_;
    std::shared_ptr<void> device_;
    size_t bytes_max_ = 0;
  };
  struct GiveBack {
    Tables* tables;
    void operator()(Table* table) const { tables->Keep(table); }
  };
  // Has to be kept until the device is done with what reads it; before the Tables are destroyed.
  using Kept = std::unique_ptr<Table, GiveBack>;

  // Enqueues the way there; always on the same stream, which outlives this. The device's context is current. The
  // statuses of CudaDevice::ToStatus.
  template <typename Row>
  absl::StatusOr<Kept> Put(const std::vector<Row>& rows, cuda::CUstream stream) {
    return Put(rows.data(), rows.size() * sizeof(Row), stream);
  }

 private:
  absl::StatusOr<Kept> Put(const void* rows, size_t bytes, cuda::CUstream stream);
  absl::StatusOr<Kept> Take(size_t bytes, cuda::CUstream stream);
  void Keep(Table* table);

  cuda::CudaDevice* const device_;
  absl::Mutex mutex_;
  // As many as were ever under way at a time.
  std::vector<std::unique_ptr<Table>> spare_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole::worker::nccl

#endif  // FARANDOLE_WORKER_NCCL_TABLES_H_
