#ifndef FARANDOLE_WORKER_EXECUTE_EXECUTOR_H_
#define FARANDOLE_WORKER_EXECUTE_EXECUTOR_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "worker/collective/bootstrap.h"
#include "worker/collective/communicator.h"
#include "worker/collective/group.h"
#include "worker/execute/batch_runner.h"
#include "worker/os/event_count.h"
#include "worker/session/work.h"

namespace farandole::worker::execute {

// One thread ("farandole-exec") that executes the items of the log in order, one at a time (W5; the window W is 1), so
// that barriers, errors, changes of process sets and the end of a leave find nothing in flight. Builds the communicator
// of a process set when its first batch comes, drops it with the set. One generation.
class Executor {
 public:
  using Factory = std::function<absl::StatusOr<std::unique_ptr<collective::Communicator>>(const collective::Group&,
                                                                                          collective::Bootstrap*)>;

  // Called on the executor's thread, without a lock held.
  class Owner {
   public:
    virtual ~Owner() = default;
    // The item is executed; the owner answers its operations.
    virtual void OnDone(session::Work work) = 0;
    // The data plane failed. The owner answers the operations, whose memory is not in use any more. Nothing further is
    // executed.
    virtual void OnBroken(session::Work work, const absl::Status& reason, Rank suspect) = 0;
    // Withdraw took the batch back before it was complete; its operations are unanswered and their memory unchanged.
    virtual void OnWithdrawn(session::Work work) = 0;
  };

  Executor(Factory factory, Owner* owner);
  // Stop().
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // What the executor's thread does while it has nothing to execute, because that may bring it something.
  class Idle {
   public:
    virtual ~Idle() = default;
    // The executor's thread: returns when `woken()`, at the latest as soon as Wake has been called after that has
    // become true, and may return earlier. False: nothing of that kind can be done now.
    virtual bool Wait(const std::function<bool()>& woken) = 0;
    // Any thread.
    virtual void Wake() = 0;
  };
  // Before Start; may be null. Must outlive Stop().
  void SetIdle(Idle* idle) { idle_ = idle; }

  // RESOURCE_EXHAUSTED if the system gives no thread.
  absl::Status Start();
  // Before the first Push: the members of process set 0. `bootstrap` must outlive Stop().
  void SetGroup(collective::Group group, collective::Bootstrap* bootstrap);
  // The executor may not notice before Wake.
  void Push(session::Work work);
  void Wake();
  // W8. Any thread, does not wait: a batch of this instance that is queued is taken out, a running one is cancelled in
  // the data plane; then OnWithdrawn. One that all members have entered completes. Ignored if there is none.
  void Withdraw(uint32_t process_set, const collective::Instance& instance);

  // Any thread, does not wait: ends the running collective with ABORTED (then OnBroken is called), executes nothing
  // further, and hands back what it had not begun; the caller answers that.
  std::vector<session::Work> Abort(const std::string& reason);

  // Joins the thread and destroys the communicators. What was not begun is dropped: call Abort before.
  void Stop();

 private:
  // The batch that the executor's thread is at.
  struct Running {
    uint32_t process_set;
    collective::Instance instance;
    bool withdrawn = false;
  };

  void Run();
  void RunBatch(session::Work work);
  absl::Status RunOn(collective::Communicator* communicator, const session::Work& work);
  // The communicator of the work's set; nullptr if it could not be built, or after an abort: the owner knows already
  // what has become of the work. Keeps the work in building_ meanwhile.
  collective::Communicator* Prepare(session::Work* work);
  // Makes or forgets a process set.
  void ChangeSet(const session::Work& work);
  // The batch is over. True if Withdraw was called for it meanwhile.
  bool EndRunning();
  bool Next(session::Work* work);
  bool NextWithdrawn(session::Work* work);
  void Wait(uint32_t seen);

  const Factory factory_;
  Owner* const owner_;
  std::thread thread_;
  os::EventCount changed_;
  Idle* idle_ = nullptr;
  BatchRunner runner_;  // executor's thread only
  // By process set, those that this worker is in. Executor's thread only, after the first Push.
  std::map<uint32_t, collective::Group> groups_;
  collective::Bootstrap* bootstrap_ = nullptr;

  absl::Mutex mutex_;
  std::deque<session::Work> queue_ ABSL_GUARDED_BY(mutex_);
  // Taken out of the queue, the owner is to be told.
  std::deque<session::Work> withdrawn_ ABSL_GUARDED_BY(mutex_);
  absl::optional<Running> running_ ABSL_GUARDED_BY(mutex_);
  absl::optional<session::Work> building_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, std::unique_ptr<collective::Communicator>> communicators_ ABSL_GUARDED_BY(mutex_);
  absl::Status end_ ABSL_GUARDED_BY(mutex_);  // not OK: nothing further is executed
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace farandole::worker::execute

#endif  // FARANDOLE_WORKER_EXECUTE_EXECUTOR_H_
