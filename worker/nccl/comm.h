#ifndef FARANDOLE_WORKER_NCCL_COMM_H_
#define FARANDOLE_WORKER_NCCL_COMM_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "proto/types.h"
#include "worker/cuda/cuda_device.h"
#include "worker/cuda/cuda_stream.h"
#include "worker/cuda/nccl_library.h"

namespace farandole::worker::nccl {

// One communicator of NCCL's, with the stream on which it works. Non-blocking, in NCCL's sense: a call that waits for
// other members is looked at again and again, so that Abort is always heard.
//
// Calls are made by one thread at a time, but for Abort and CheckHealth. Their status: ABORTED, with the reason given
// to Abort; DEADLINE_EXCEEDED; UNAVAILABLE, in NCCL's words; DATA_LOSS, as CudaDevice.
class Comm {
 public:
  // `library` and `device` outlive it.
  struct Parts {
    const cuda::NcclLibrary* library;
    cuda::CudaDevice* device;
    // How long a call may stay in progress, as NCCL's first ones do until the others have made theirs.
    uint32_t call_timeout_ms;
  };
  struct Place {
    int size;
    int position;
    cuda::ncclUniqueId id;
  };
  // Starts the initialisation, which goes on until all members have done the same.
  static absl::StatusOr<std::unique_ptr<Comm>> Start(const Parts& parts, const Place& place);
  // Nothing is under way, or Abort was called.
  ~Comm();
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  // OK when the initialisation is over. `go_on`: asked meanwhile, about every millisecond; what it says ends the wait.
  absl::Status AwaitInit(const std::function<absl::Status()>& go_on);

  cuda::CUstream stream() const { return stream_->get(); }
  const Parts& parts() const { return parts_; }

  // Enqueues what `calls` does with NCCL's functions, as one group of them. `what` for messages.
  using Calls = std::function<cuda::ncclResult_t(const cuda::NcclApi&, cuda::ncclComm_t, cuda::CUstream)>;
  absl::Status Enqueue(const char* what, const Calls& calls);
  // An operation that multiplies each operand with a factor before it adds them up; kept for the next time. Products
  // are not rounded, but for the first one.
  absl::StatusOr<cuda::ncclRedOp_t> ScaledSum(DataType type, double factor);

  // Any thread. What NCCL has found out by itself.
  absl::Status CheckHealth();
  // Any thread, idempotent: what is enqueued ends soon, and what is called later fails. May take as long as NCCL likes;
  // the first call lasts until it is over.
  void Abort(const std::string& reason);

 private:
  explicit Comm(const Parts& parts) : parts_(parts) {}
  absl::Status Init(const Place& place);
  // Of a call that may have been left in progress: its end.
  absl::Status Finish(cuda::ncclResult_t result, const char* what);
  // One look at a call in progress; ncclInProgress: it still is.
  absl::StatusOr<cuda::ncclResult_t> Poll();
  absl::Status ToStatus(cuda::ncclResult_t result, absl::string_view what) const;
  void ForgetScaledSums() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Close();

  const Parts parts_;
  std::unique_ptr<cuda::CudaStream> stream_;

  absl::Mutex mutex_;  // held for one call at a time
  cuda::ncclComm_t comm_ ABSL_GUARDED_BY(mutex_) = nullptr;
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);
  std::map<std::pair<DataType, double>, cuda::ncclRedOp_t> scaled_sums_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole::worker::nccl

#endif  // FARANDOLE_WORKER_NCCL_COMM_H_
