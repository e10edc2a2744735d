#ifndef FARANDOLE_WORKER_NCCL_SIDE_H_
#define FARANDOLE_WORKER_NCCL_SIDE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/types.h"
#include "worker/collective/collective.h"
#include "worker/cuda/cuda_stopwatch.h"
#include "worker/kernels/kernels.h"
#include "worker/nccl/comm.h"
#include "worker/nccl/lowering.h"
#include "worker/nccl/tables.h"

namespace farandole::worker::nccl {

// This process's part of NCCL's work on one device: puts collectives on the stream of a Comm, with the moves that they
// need before and after. One thread at a time; nothing here waits for the device.
class Side {
 public:
  // `kernels` outlives it.
  Side(std::unique_ptr<Comm> comm, const kernels::Kernels* kernels, int size, int position)
      : comm_(std::move(comm)), kernels_(kernels), size_(size), position_(position), tables_(comm_->parts().device) {}

  Comm& comm() { return *comm_; }
  // Whether NCCL's initialisation is over: nothing may be enqueued before.
  bool ready() const { return ready_; }
  // As Comm::AwaitInit.
  absl::Status AwaitReady(const std::function<absl::Status()>& go_on) {
    const absl::Status status = comm_->AwaitInit(go_on);
    ready_ = status.ok();
    return status;
  }
  cuda::CudaDevice* device() const { return comm_->parts().device; }

  // What has to be kept until the device is done with a collective.
  struct Kept {
    std::shared_ptr<void> buffer;
    std::vector<Tables::Kept> tables;
    // Null: nobody asks for times.
    std::unique_ptr<cuda::CudaStopwatch> stopwatch;
  };
  // Makes the stream wait for what a collective has to come after. Several moments of one stream are one wait.
  absl::Status WaitFor(const std::vector<device::EventPtr>& ready);
  // The statuses of Comm; RESOURCE_EXHAUSTED: the device has no memory for what is moved; INTERNAL: this is nothing
  // that NCCL does. What a failure leaves on the stream ends with it.
  absl::Status Enqueue(const collective::Collective& collective, Kept* kept);

 private:
  absl::Status Enqueue(const collective::Allreduce& call, Kept* kept);
  absl::Status Enqueue(const collective::Adasum& call, Kept* kept);
  absl::Status Enqueue(const collective::Reducescatter& call, Kept* kept);
  absl::Status Enqueue(const collective::Allgather& call, Kept* kept);
  absl::Status Enqueue(const collective::Alltoall& call, Kept* kept);
  absl::Status Enqueue(const collective::Broadcast& call, Kept* kept);
  absl::Status Enqueue(const collective::Barrier& call, Kept* kept);

  // The steps of one, on this member's share; `byte_counts`: of all shares.
  absl::Status Adasum(const collective::Adasum& call, const std::vector<int64_t>& byte_counts, char* data,
                      kernels::AdasumCall share, Kept* kept);

  absl::StatusOr<cuda::ncclRedOp_t> OpOf(const Lowering& lowering);
  // Both runs, in one group. `kept`: of an allreduce, for its times.
  absl::Status AllreduceAt(const Bases& input, const Bases& output, const Layout& layout, const Lowering& lowering,
                           Kept* kept);
  // Tensors to `to`, but for those that are there.
  absl::Status Pack(const collective::Allreduce& call, const Layout& layout, const Lowering& lowering, const Bases& to,
                    Kept* kept);
  // The other way round.
  absl::Status Unpack(const collective::Allreduce& call, const Layout& layout, const Lowering& lowering,
                      const Bases& from, Kept* kept);
  absl::Status Move(DataType from, DataType to, const std::vector<kernels::MovePiece>& pieces, Kept* kept);
  // At least so large; the same as before if it may be: what uses it comes one after the other on the stream.
  absl::StatusOr<char*> Buffer(int64_t bytes, Kept* kept);

  const std::unique_ptr<Comm> comm_;
  const kernels::Kernels* const kernels_;
  const int size_;
  const int position_;
  Tables tables_;
  std::shared_ptr<void> buffer_;
  int64_t buffer_bytes_ = 0;
  std::atomic<bool> ready_{false};
};

}  // namespace farandole::worker::nccl

#endif  // FARANDOLE_WORKER_NCCL_SIDE_H_
