#ifndef FARANDOLE_WORKER_NCCL_NCCL_COMMUNICATOR_H_
#define FARANDOLE_WORKER_NCCL_NCCL_COMMUNICATOR_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "worker/collective/bootstrap.h"
#include "worker/collective/communicator.h"
#include "worker/collective/group.h"
#include "worker/cuda/cuda_device.h"
#include "worker/cuda/nccl_library.h"
#include "worker/kernels/kernels.h"
#include "worker/nccl/side.h"
#include "worker/nccl/watch.h"

namespace farandole::worker::nccl {

// What the communicators of a process share; all of it outlives them.
struct Resources {
  const cuda::NcclLibrary* library;
  Watch* watch;
  // The kernels of a device, loaded once.
  std::function<absl::StatusOr<const kernels::Kernels*>(cuda::CudaDevice*)> kernels;
};

// The collectives of a process set on the memory of CUDA devices, by NCCL. A process may use several devices, all
// members the same number of them, in the same order: each has a communicator of NCCL's and a stream of its own.
//
//   executor's thread  Start: makes the communicator of a device that is new, then only enqueues
//   Watch's thread     sees what has ended, asks NCCL for failures, and carries out an abort, which may take a while
//
// NCCL does not tell who has failed: SuspectRank is unknown, the controller knows better.
class NcclCommunicator final : public collective::Communicator, private Watch::Client {
 public:
  // With the communicator of `device` made. Blocks until all members have theirs, at most Group::setup_timeout_ms.
  // UNAVAILABLE: all members got this answer, for instance since two of them use one device. Otherwise a failure.
  static absl::StatusOr<std::unique_ptr<NcclCommunicator>> Create(const collective::Group& group,
                                                                  collective::Bootstrap* bootstrap,
                                                                  cuda::CudaDevice* device, const Resources& resources);
  ~NcclCommunicator() override;

  std::string name() const override { return "nccl"; }
  int position() const override { return group_.position; }
  int size() const override { return static_cast<int>(group_.members.size()); }
  int64_t FusedBytesMax(DeviceKind memory, device::Device* device) override;
  void Start(const collective::Instance& instance, const collective::Collective& collective, const Enqueued& enqueued,
             Done done) override;
  void Withdraw(const collective::Instance& instance) override {}
  void Abort(const std::string& reason) override;
  Rank SuspectRank() const override { return Rank(); }

 private:
  // A collective on a stream.
  struct UnderWay {
    std::shared_ptr<const cuda::CudaEvent> end;
    Done done;
    Side::Kept kept;
    TimePoint deadline;
  };

  NcclCommunicator(const collective::Group& group, collective::Bootstrap* bootstrap, const Resources& resources)
      : group_(group), bootstrap_(bootstrap), resources_(resources) {}

  // The side of a device, null: of the one that was used last. Begins its initialisation if it is new.
  absl::StatusOr<Side*> SideOf(cuda::CudaDevice* device);
  absl::StatusOr<std::unique_ptr<Side>> MakeSide(cuda::CudaDevice* device);
  // The same, when its initialisation is over; Abort ends the wait.
  absl::StatusOr<Side*> ReadySideOf(cuda::CudaDevice* device);

  Watch::Seen Look() override;
  // After a failure: aborts NCCL's work, once.
  void CarryOutAbort(const absl::Status& failure, TimePoint now);
  // Tells of what has ended on its device, in the order in which it was enqueued there. True if anything has.
  bool EndFinished(TimePoint now);
  bool Finished(const UnderWay& one, TimePoint now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Asks NCCL from time to time while something is under way.
  void CheckHealth(TimePoint now);
  // The first one counts.
  void Fail(const absl::Status& status);
  absl::Status failure() const;

  const collective::Group group_;
  collective::Bootstrap* const bootstrap_;
  const Resources resources_;

  // Executor's thread only.
  std::map<cuda::CudaDevice*, std::unique_ptr<Side>> sides_;
  Side* last_ = nullptr;
  bool watched_ = false;

  // Watch's thread only.
  TimePoint next_check_;
  TimePoint give_up_;
  bool aborted_ = false;

  mutable absl::Mutex mutex_;
  std::vector<Side*> shown_ ABSL_GUARDED_BY(mutex_);
  // In the order in which they were enqueued.
  std::deque<UnderWay> under_way_ ABSL_GUARDED_BY(mutex_);
  int ending_ ABSL_GUARDED_BY(mutex_) = 0;  // taken out, `done` is to be called
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole::worker::nccl

#endif  // FARANDOLE_WORKER_NCCL_NCCL_COMMUNICATOR_H_
