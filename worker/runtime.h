#ifndef FARANDOLE_WORKER_RUNTIME_H_
#define FARANDOLE_WORKER_RUNTIME_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "base/event_loop.h"
#include "worker/config.h"
#include "worker/control/loop_idle.h"
#include "worker/execute/executor.h"
#include "worker/link/control_link.h"
#include "worker/link/link_bootstrap.h"
#include "worker/os/event_count.h"
#include "worker/os/log.h"
#include "worker/os/patience.h"
#include "worker/session/operation.h"
#include "worker/session/outage_watch.h"
#include "worker/session/place.h"
#include "worker/session/session.h"
#include "worker/session/tally.h"
#include "worker/timeline/job_timeline.h"

namespace farandole::worker {

// One life of the library in this process, from init() to shutdown(): takes submissions, talks to the controller,
// executes what it dispatches, answers. Threads: the control loop "farandole-ctl" (link, timers) and the executor
// "farandole-exec". The state of the session is guarded by one mutex that nobody holds for longer than a step, rather
// than owned by the loop: so a submission is announced, and an answer given, without waking a third thread.
//
// Operation::Finish is called without any lock of ours, the control loop included, and never inside a Submit: what
// follows from it may submit the next operation at once. It must not wait for other operations, nor call Stop.
class Runtime final : private link::ControlLink::Listener,
                      private execute::Executor::Owner {
 public:
  using LinkFactory = std::function<std::unique_ptr<link::ControlLink>(EventLoop* loop, Incarnation worker)>;

  struct Limits {
    // A shutdown without an answer ends by itself.
    uint32_t leave_ms = 5000;
    // After a failure of the data plane: how long to wait for the controller to name the culprit. Longer than its own
    // wait for evidence.
    uint32_t verdict_ms = 6000;
  };

  // The last membership that this process had before; generation 0: none.
  struct Past {
    uint64_t generation = 0;
    Rank rank;
  };

  Runtime(Config config, const LinkFactory& link, execute::Executor::Factory communicators, Limits limits, Past past);
  Runtime(Config config, const LinkFactory& link, execute::Executor::Factory communicators, Limits limits)
      : Runtime(std::move(config), link, std::move(communicators), limits, Past()) {}
  Runtime(Config config, const LinkFactory& link, execute::Executor::Factory communicators)
      : Runtime(std::move(config), link, std::move(communicators), Limits()) {}
  // Stop().
  ~Runtime() override;

  // Starts threads and joining. RESOURCE_EXHAUSTED: the system gives no thread or no descriptor; only Stop is of use
  // then.
  absl::Status Start();
  // OK: this process is a member of the job. PENDING, or why it did not become one.
  completion::Result WaitReady(int timeout_ms);
  // After WaitReady() was OK, also when the membership has ended since.
  View view() const;
  Member self() const;
  // How the next membership would differ from this one as things stand; zeros outside of elastic jobs.
  MembershipNotice membership_notice() const;
  // Size 0 also when the membership has never begun.
  session::Place PlaceIn(uint32_t process_set, Rank root = Rank()) const;
  // nullopt: there is none of this id.
  absl::optional<ProcessSet> process_set(uint32_t id) const;

  // After WaitReady() was OK: see SharedMemory::Allocate. UNAVAILABLE also if the members of the process set do not
  // reduce in shared memory.
  absl::StatusOr<char*> AllocateShared(uint32_t process_set, int64_t bytes);

  // Does not block. The operation finishes exactly once if this is OK, otherwise never.
  completion::Result Submit(std::shared_ptr<session::Operation> operation);
  // All or none of them.
  completion::Result Submit(const std::vector<std::shared_ptr<session::Operation>>& operations);
  // Announces now what is held back to be announced together.
  void Flush();
  // Flush(), then waits until the operation is done, at most `timeout_ms`.
  void Wait(session::Operation* operation, int timeout_ms);

  // After WaitReady() was OK: see JobTimeline.
  absl::Status StartTimeline(const std::string& path, bool mark_cycles) { return timeline_.Start(path, mark_cycles); }
  void StopTimeline() { timeline_.Stop(); }

  void BeginLeave();
  // True when the job has let this worker go, or does not matter any more. Bounded by Limits::leave_ms.
  bool WaitLeft(int timeout_ms);
  // Ends everything, joins the threads. Every operation has finished when it returns. Not from our threads.
  void Stop();

 private:
  // Holds the session's mutex for one step of it. What the step leaves to be done, because it is slow or calls others'
  // code, follows when the mutex is free: in this thread, and if that runs the control loop, when it has let go of it.
  class ABSL_SCOPED_LOCKABLE Step {
   public:
    explicit Step(Runtime* runtime) ABSL_EXCLUSIVE_LOCK_FUNCTION(runtime->mutex_) : runtime_(runtime) {
      runtime_->mutex_.Lock();
    }
    ~Step() ABSL_UNLOCK_FUNCTION() { runtime_->EndStep(); }
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

   private:
    Runtime* const runtime_;
  };

  Runtime(Config config, const LinkFactory& link, execute::Executor::Factory communicators, Limits limits, Past past,
          Incarnation incarnation);

  void OnLinkState(const LinkState& state) override;
  void OnReceived(WorkerDown message) override;
  WorkerReport Report() override;
  void OnDone(session::Work work) override;
  void OnBroken(session::Work work, const absl::Status& reason, Rank suspect) override;
  void OnWithdrawn(session::Work work) override;

  completion::Result SubmitAll(const std::shared_ptr<session::Operation>* operations, size_t count);
  void StartFromLoop();
  void StartTimeOver();
  // Of an elastic job, which may have to wait for processes for long, but not for the controller.
  void AnswerTimeOver();
  std::string WhatIsMissing() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sees to it that the loop looks again when a wait for the own script has lasted too long (W3b). Costs a wake of the
  // loop at most once per patience, however many batches start meanwhile.
  void WatchPatience() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PatienceFromLoop();
  void ArmAckTimerFromLoop();
  void AckTimeOver();
  // Ends the membership if the controller has been away for too long.
  void LookAtOutageFromLoop();
  // Within a Step.
  void Apply(session::Effects effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndAll(session::Effects effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // After the step: ends them with Session::end().
  void End(std::vector<std::shared_ptr<session::Operation>> operations) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Joined() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LogAfterStep(os::LogLevel level, std::string text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndStep() ABSL_UNLOCK_FUNCTION(mutex_);
  // The part of joining that reads and writes files, once, in the thread that waits for it.
  void PrepareMember();

  const Config config_;
  const Limits limits_;
  EventLoop loop_{"farandole-ctl"};
  const std::unique_ptr<link::ControlLink> link_;
  std::unique_ptr<link::LinkBootstrap> bootstrap_;
  timeline::JobTimeline timeline_{&loop_, link_.get()};
  control::LoopIdle idle_{&loop_};
  execute::Executor executor_;
  // Something that WaitReady or WaitLeft looks at has changed.
  os::EventCount changed_;
  os::Patience patience_{Clock::Monotonic()};
  bool ack_timer_armed_ = false;           // control loop only
  EventLoop::TimerId patience_timer_ = 0;  // control loop only

  mutable absl::Mutex mutex_;
  session::Session session_ ABSL_GUARDED_BY(mutex_);
  session::Tally tally_ ABSL_GUARDED_BY(mutex_);
  bool joined_ ABSL_GUARDED_BY(mutex_) = false;
  // What steps leave: see Step.
  bool wake_executor_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::function<void()>> after_step_ ABSL_GUARDED_BY(mutex_);
  // Calls of End whose operations have not all finished.
  int endings_ ABSL_GUARDED_BY(mutex_) = 0;
  LinkState link_state_ ABSL_GUARDED_BY(mutex_);
  session::OutageWatch outage_ ABSL_GUARDED_BY(mutex_);
  bool outage_watched_ ABSL_GUARDED_BY(mutex_) = false;
  TimePoint last_announce_ ABSL_GUARDED_BY(mutex_);
  bool flush_posted_ ABSL_GUARDED_BY(mutex_) = false;
  // The loop will look at the session's deadline then or earlier; Infinite: it will not.
  TimePoint patience_watched_ ABSL_GUARDED_BY(mutex_) = TimePoint::Infinite();
  // Failed in the data plane, wait for the controller's word.
  std::vector<std::shared_ptr<session::Operation>> parked_ ABSL_GUARDED_BY(mutex_);
  absl::Mutex prepare_mutex_;
  bool prepared_ ABSL_GUARDED_BY(prepare_mutex_) = false;
  absl::Mutex stop_mutex_;
  bool stopped_ ABSL_GUARDED_BY(stop_mutex_) = false;
};

}  // namespace farandole::worker

#endif  // FARANDOLE_WORKER_RUNTIME_H_
