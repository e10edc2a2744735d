#ifndef FARANDOLE_WORKER_NCCL_NCCL_COMMUNICATOR_H_
#define FARANDOLE_WORKER_NCCL_NCCL_COMMUNICATOR_H_

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
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
  // As in Guest.
  bool shares_devices;
  std::string host_id;
  // The kernels of a device, loaded once.
  std::function<absl::StatusOr<const kernels::Kernels*>(cuda::CudaDevice*)> kernels;
  // How long the device may go on with a collective that was aborted: NCCL's kernels look at a flag in host memory.
  int64_t aborted_ms = 10000;
  // How long the device may be at work on a collective until that is told.
  int64_t long_ms = 60000;
};

// The collectives of a process set on the memory of CUDA devices, by NCCL. Each member uses one device, with a stream
// of our own.
//
//   executor's thread  Start: waits for the initialisation the first time, then only enqueues
//   Watch's thread     sees what has ended, and asks NCCL for failures
//   "farandole-abort"  aborts, which may take a while; those of other communicators go on beside it
//
// The first one that learns of a failure starts an abort: Watch's thread may be in the driver, which may wait for what
// only the abort ends.
//
// NCCL does not tell who has failed: SuspectRank is unknown, the controller knows better.
class NcclCommunicator final : public collective::Communicator, private Watch::Client {
 public:
  // Blocks until all members have met, at most ten times Group::setup_timeout_ms; the first Start waits for NCCL's own
  // initialisation. UNAVAILABLE: all members got this answer, for instance since two of them use one device, or one,
  // which has joined, has none (null). Otherwise a failure.
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
  // A collective on a stream: when the device comes to it, behind the work of a framework, and when it is done.
  struct Moments {
    std::shared_ptr<const cuda::CudaEvent> begin;
    std::shared_ptr<const cuda::CudaEvent> end;
    TimePoint deadline;
    TimePoint is_long;
  };
  struct UnderWay {
    Moments moments;
    Done done;
    Side::Kept kept;
    device::Phases* phases = nullptr;
  };

  struct Aborting {
    const TimePoint began = Clock::Monotonic().Now();
    absl::Notification over;
  };

  NcclCommunicator(const collective::Group& group, collective::Bootstrap* bootstrap, cuda::CudaDevice* device,
                   const Resources& resources)
      : group_(group), bootstrap_(bootstrap), device_(device), resources_(resources) {}

  // Begins the initialisation.
  absl::Status MakeSide();
  // Until it is over; Abort ends the wait.
  absl::Status AwaitReady();
  // Null: this member only adds zeros.
  absl::Status CheckDevice(const device::Device* device) const;

  Watch::Seen Look() override;
  // Has NCCL's work aborted by a thread. False: there is no more.
  bool BeginAbort() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of a failure for whose abort there was no thread.
  void AbortHere();
  // Of an abort that was begun, for a while.
  void AwaitAbort();
  // Tells of what has ended on the device, in the order in which it was enqueued. True if anything has.
  bool EndFinished();
  // Whether the device is done with the first one, or nobody can wait for it any more, nor for what is behind it.
  bool Finished(const Moments& first);
  // Warns once of one that the device has begun long ago.
  void TellIfLong(const Moments& first);
  // Whether the device does not end the first one, which was aborted.
  bool IsStuck(const Moments& first, const Aborting& aborting);
  // Asks NCCL from time to time while something is under way.
  void CheckHealth(TimePoint now);
  // The first one counts, and begins the abort.
  void Fail(const absl::Status& status);
  absl::Status failure() const;

  const collective::Group group_;
  collective::Bootstrap* const bootstrap_;
  cuda::CudaDevice* const device_;
  const Resources resources_;

  // Constant once made. An abort that does not end keeps it.
  std::shared_ptr<Side> side_;
  bool watched_ = false;

  // Watch's thread only.
  TimePoint next_check_;
  // Of an abort: until when what is first under way may be.
  std::optional<TimePoint> first_until_;
  // When the first one was first seen to have begun, once it was looked at for that.
  std::optional<TimePoint> begun_since_;
  // The device has not ended what was aborted, and is not waited for any more.
  bool lost_ = false;

  mutable absl::Mutex mutex_;
  // Also while its thread goes on after this. Null: there is none.
  std::shared_ptr<Aborting> aborting_ ABSL_GUARDED_BY(mutex_);
  // In the order in which they were enqueued.
  std::deque<UnderWay> under_way_ ABSL_GUARDED_BY(mutex_);
  int ending_ ABSL_GUARDED_BY(mutex_) = 0;  // taken out, `done` is to be called
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole::worker::nccl

#endif  // FARANDOLE_WORKER_NCCL_NCCL_COMMUNICATOR_H_
