#ifndef FARANDOLE_WORKER_RUNTIME_H_
#define FARANDOLE_WORKER_RUNTIME_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/event_loop.h"
#include "worker/config.h"
#include "worker/control/execution.h"
#include "worker/control/link_events.h"
#include "worker/control/loop_idle.h"
#include "worker/control/start_limit.h"
#include "worker/control/steps.h"
#include "worker/control/submitter.h"
#include "worker/device/device.h"
#include "worker/execute/executor.h"
#include "worker/link/control_link.h"
#include "worker/membership.h"
#include "worker/os/patience.h"
#include "worker/session/operation.h"
#include "worker/timeline/job_timeline.h"

namespace farandole::worker {

// One life of the library in this process, from init() to shutdown(): its parts, how it begins and ends, and how the
// script's threads wait for it. Threads: the control loop "farandole-ctl" (link, timers) and the executor
// "farandole-exec".
//
// Operation::Finish is called without any lock of ours, the control loop included, and never inside a Submit: what
// follows from it may submit the next operation at once. It must not wait for other operations, nor call Stop.
class Runtime {
 public:
  using LinkFactory = std::function<std::unique_ptr<link::ControlLink>(EventLoop* loop, Incarnation worker)>;

  struct Limits {
    // A shutdown without an answer ends by itself.
    uint32_t leave_ms = 5000;
    // After a failure of the data plane: how long to wait for the controller to name the culprit. Longer than its own
    // wait for evidence.
    uint32_t verdict_ms = 6000;
    // As `leave_ms` while a device has not done what was dispatched to it, nor perhaps what the script has put there
    // before, on this rank or another one.
    uint32_t leave_device_ms = 300000;
  };

  // The last membership that this process had before; generation 0: none.
  struct Past {
    uint64_t generation = 0;
    Rank rank;
    uint64_t state_generation = 0;  // see proto/farandole/v1/worker.proto
    uint32_t home = 0;              // the same; 0: as the slot says
  };

  Runtime(Config config, const LinkFactory& link, execute::Executor::Factory communicators, Limits limits, Past past);
  Runtime(Config config, const LinkFactory& link, execute::Executor::Factory communicators, Limits limits)
      : Runtime(std::move(config), link, std::move(communicators), limits, Past()) {}
  Runtime(Config config, const LinkFactory& link, execute::Executor::Factory communicators)
      : Runtime(std::move(config), link, std::move(communicators), Limits()) {}
  // Stop().
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // Starts threads and joining. RESOURCE_EXHAUSTED: the system gives no thread or no descriptor; only Stop is of use
  // then.
  absl::Status Start();
  // OK: this process is a member of the job. PENDING, or why it did not become one.
  completion::Result WaitReady(int timeout_ms);
  bool elastic() const { return config_.elastic(); }
  // For after WaitReady() was OK.
  Membership& membership() { return membership_; }

  // Does not block. The operation finishes exactly once if this is OK, otherwise never.
  completion::Result Submit(std::shared_ptr<session::Operation> operation) { return submitter_.Submit(&operation, 1); }
  // All or none of them.
  completion::Result Submit(const std::vector<std::shared_ptr<session::Operation>>& operations) {
    return submitter_.Submit(operations.data(), operations.size());
  }
  // Announces now what is held back to be announced together.
  void Flush() { submitter_.Flush(); }
  // Flush(), then waits until the operation is done, at most `timeout_ms`.
  void Wait(session::Operation* operation, int timeout_ms);
  // The same, until it is enqueued on its device: as Operation::WaitEnqueued.
  bool WaitEnqueued(session::Operation* operation, int timeout_ms, device::EventPtr* event);

  // After WaitReady() was OK: see JobTimeline.
  absl::Status StartTimeline(const std::string& path, bool mark_cycles) { return timeline_.Start(path, mark_cycles); }
  void StopTimeline() { timeline_.Stop(); }

  void BeginLeave();
  // Waits at most `timeout_ms`. True when the job has let this worker go, or does not matter any more, which takes at
  // most Limits::leave_ms, or leave_device_ms.
  bool WaitLeft(int timeout_ms);
  // Ends everything, joins the threads. Every operation has finished when it returns. Not from our threads.
  void Stop();

 private:
  // Flush(), and what a wait of the script does before it sleeps. True: `over` says so already.
  template <typename Over>
  bool WaitAwake(session::Operation* operation, const Over& over);
  // Until something has changed since `seen`, whatever it is. False: the deadline has passed.
  bool AwaitChange(uint32_t seen, TimePoint deadline);
  Runtime(Config config, const LinkFactory& link, execute::Executor::Factory communicators, Limits limits, Past past,
          Incarnation incarnation);

  // Ends a shutdown that takes too long; `device_deadline` is for what devices do.
  void LimitLeaveFromLoop(TimePoint device_deadline);
  // The part of joining that reads and writes files, once, in the thread that waits for it.
  void PrepareMember();

  const Config config_;
  const Limits limits_;
  EventLoop loop_{"farandole-ctl"};
  const std::unique_ptr<link::ControlLink> link_;
  timeline::JobTimeline timeline_{&loop_, link_.get()};
  control::LoopIdle idle_{&loop_};
  execute::Executor executor_;
  control::Steps steps_;
  Membership membership_{&config_, &steps_, link_.get(), &link_events_, &executor_, &timeline_};
  control::Submitter submitter_{&loop_, &steps_};
  control::Execution execution_{&loop_, &steps_, &timeline_, limits_.verdict_ms};
  control::LinkEvents link_events_{&loop_, &steps_, &timeline_, config_.controller_timeout_ms};
  control::StartLimit start_limit_;
  os::Patience patience_{Clock::Monotonic()};

  absl::Mutex prepare_mutex_;
  bool prepared_ ABSL_GUARDED_BY(prepare_mutex_) = false;
  absl::Mutex stop_mutex_;
  bool stopped_ ABSL_GUARDED_BY(stop_mutex_) = false;
};

}  // namespace farandole::worker

#endif  // FARANDOLE_WORKER_RUNTIME_H_
