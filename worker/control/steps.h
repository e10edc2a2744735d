#ifndef FARANDOLE_WORKER_CONTROL_STEPS_H_
#define FARANDOLE_WORKER_CONTROL_STEPS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/event_loop.h"
#include "worker/control/deadline_watch.h"
#include "worker/control/loop_idle.h"
#include "worker/execute/executor.h"
#include "worker/link/control_link.h"
#include "worker/os/event_count.h"
#include "worker/os/log.h"
#include "worker/session/operation.h"
#include "worker/session/session.h"
#include "worker/session/tally.h"
#include "worker/timeline/job_timeline.h"

namespace farandole::worker::control {

// The session of a worker, one step at a time, by any thread: belongs to no thread but to one mutex, which nobody holds
// for longer than a step, nor across a call that can block, prints, or opens a file. So a submission is announced, and
// an answer given, without waking a third thread.
class Steps {
 public:
  // What the effects of a step act on. All of them outlive this.
  struct Parts {
    EventLoop* loop;
    link::ControlLink* link;
    execute::Executor* executor;
    timeline::JobTimeline* timeline;
    LoopIdle* idle;
  };
  // `joined` is called within the step in which Session::view() comes to be, before the executor is given anything.
  Steps(session::Session::Identity identity, const Parts& parts, std::function<void()> joined);
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;

  // Holds the mutex for one step. What the step leaves to be done, because it is slow or calls others' code, follows
  // when the mutex is free: in this thread, and if that runs the control loop, when it has let go of it.
  class ABSL_SCOPED_LOCKABLE Step {
   public:
    explicit Step(Steps* steps) ABSL_EXCLUSIVE_LOCK_FUNCTION(steps->mutex_) : steps_(steps) { steps_->mutex_.Lock(); }
    ~Step() ABSL_UNLOCK_FUNCTION() { steps_->EndStep(); }
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

   private:
    Steps* const steps_;
  };

  // To look at the session without a step, and to guard what belongs to it elsewhere.
  absl::Mutex* mutex() const ABSL_LOCK_RETURNED(mutex_) { return &mutex_; }
  const session::Session& session() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return session_; }
  // Something has changed for who waits for the session's state, or for the end of an operation that End was told of.
  os::EventCount& changed() { return changed_; }

  // The rest within a Step.
  session::Session& session() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return session_; }
  std::string CommunicatesBy() { return parts_.executor->CommunicatesBy(); }
  session::Tally& tally() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return tally_; }
  void Apply(session::Effects effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Has failed in the data plane and ends when the membership does, for whose end the controller knows the reason.
  void Park(std::vector<std::shared_ptr<session::Operation>> operations) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // After the step: ends them with `end`. Some may be null.
  void End(std::vector<std::shared_ptr<session::Operation>> operations, completion::Result end)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A thread waits for something whose deadline has changed: see Session::Blocked.
  void WatchDeadline() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { watch_.Watch(session_.NextDeadline()); }
  void LogAfterStep(os::LogLevel level, std::string text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Waits until what End was told of has finished, in whatever thread.
  void AwaitEndings() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void EndAll(session::Effects effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndStep() ABSL_UNLOCK_FUNCTION(mutex_);
  TimePoint TickFromLoop();

  const Parts parts_;
  const std::function<void()> joined_;
  os::EventCount changed_;
  // A wait for the own script that lasts too long (W3b).
  DeadlineWatch watch_;

  mutable absl::Mutex mutex_;
  session::Session session_ ABSL_GUARDED_BY(mutex_);
  session::Tally tally_ ABSL_GUARDED_BY(mutex_);
  // What steps leave: see Step.
  bool wake_executor_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::function<void()>> after_step_ ABSL_GUARDED_BY(mutex_);
  // Calls of End whose operations have not all finished.
  int endings_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::shared_ptr<session::Operation>> parked_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole::worker::control

#endif  // FARANDOLE_WORKER_CONTROL_STEPS_H_
