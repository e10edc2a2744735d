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
#include "worker/execute/batch_run.h"
#include "worker/execute/tracing_communicator.h"
#include "worker/os/event_count.h"
#include "worker/session/window.h"
#include "worker/session/work.h"

namespace farandole::worker::execute {

// One thread ("farandole-exec"), the issuer, that starts the items of the log in order (W5): batches while fewer of
// their kind than W has room for are under way; barriers, errors, changes of process sets and the end of a leave once
// nothing is. Batches of one set complete in order, told by a thread in which one ends, or that is at telling already.
// Builds the communicator of a process set when its first batch comes, drops it with the set. One generation.
class Executor {
 public:
  using Factory = std::function<absl::StatusOr<std::unique_ptr<collective::Communicator>>(const collective::Group&,
                                                                                          collective::Bootstrap*)>;

  // Called without a lock held, by one thread at a time: the issuer, or one of a communicator's.
  class Owner {
   public:
    virtual ~Owner() = default;
    // The item is executed; the owner answers its operations.
    virtual void OnDone(session::Work work) = 0;
    // The data plane failed, now or while this was under way. The owner answers the operations, whose memory is not in
    // use any more. Nothing further is executed.
    virtual void OnBroken(session::Work work, const absl::Status& reason, Rank suspect) = 0;
    // Withdraw took the batch back before it was complete; its operations are unanswered and their memory unchanged.
    virtual void OnWithdrawn(session::Work work) = 0;
  };

  Executor(Factory factory, Owner* owner, const session::Window& window = {});
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
  // Takes back a batch that some member never enters (W8). Any thread, does not wait: one of this instance that is
  // queued is taken out, one under way is cancelled in the data plane; then OnWithdrawn. One that all members have
  // entered completes. Ignored if there is none.
  void Withdraw(uint32_t process_set, const collective::Instance& instance);

  // Any thread, does not wait: ends what is under way with ABORTED (then OnBroken is called), executes nothing further,
  // and hands back what it had not begun; the caller answers that.
  std::vector<session::Work> Abort(const std::string& reason);

  // Any thread: how all members communicate (collective::Communicator::CommunicatesBy); "" = not yet.
  std::string CommunicatesBy();

  // Waits for what is under way, joins the thread and destroys the communicators. What was not begun is dropped: call
  // Abort before.
  void Stop();

 private:
  // A batch that has left the queue and has not been told.
  struct UnderWay {
    explicit UnderWay(Executor* executor);
    session::Work work;
    // Null until it is there.
    collective::Communicator* communicator = nullptr;
    bool withdrawn = false;
    bool handed_back = false;  // to Abort, before it had begun
    bool ended = false;
    absl::Status failed;  // it could not begin
    absl::optional<TracingCommunicator> traced;
    BatchRun run;
  };

  void Run();
  // False: there is nothing to do now.
  bool DoNext();
  // Takes the next item; of a batch, `batch` instead of `work`.
  bool Next(session::Work* work, UnderWay** batch);
  UnderWay* Enter(session::Work work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Begin(UnderWay* batch);
  // Goes on starting the collectives of issuing_. False: they wait.
  bool Issue();
  // The communicator of the batch's set; nullptr if the batch has ended or was handed back.
  collective::Communicator* CommunicatorFor(UnderWay* batch);
  // The same out of what was built for it.
  collective::Communicator* TakeBuilt(UnderWay* batch, absl::StatusOr<std::unique_ptr<collective::Communicator>> built);
  // Makes or forgets a process set.
  void ChangeSet(const session::Work& work);

  bool InIssuer() const;
  // Of a batch's run, from any thread: something that the issuer may wait for has happened.
  void WakeUnlessStarting();
  // Of the batch's run, whose last call this is. Any thread.
  void OnEnded(UnderWay* batch);
  // Tells the owner what has ended or was taken out of the queue, unless another thread is at it. True if it told
  // anything.
  bool Deliver();
  bool HasRoom(const session::Work& batch) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A batch that has ended and that no earlier one of its set holds up; nullptr: none.
  std::unique_ptr<UnderWay> TakeEnded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Tell(UnderWay* batch);
  std::unique_ptr<UnderWay> Remove(UnderWay* batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Over();
  void Wait(uint32_t seen);

  const Factory factory_;
  Owner* const owner_;
  const session::Window window_;
  std::thread thread_;
  os::EventCount changed_;
  Idle* idle_ = nullptr;
  // The rest up to the mutex: issuer only, after the first Push.
  std::map<uint32_t, collective::Group> groups_;  // by process set, those that this worker is in
  collective::Bootstrap* bootstrap_ = nullptr;
  UnderWay* issuing_ = nullptr;  // not all of its collectives have been started
  bool starting_ = false;        // the issuer is at that, and waits for nothing
  std::thread::id issuer_;       // read by others, which the communicators start later

  absl::Mutex mutex_;
  std::deque<session::Work> queue_ ABSL_GUARDED_BY(mutex_);
  // Taken out of the queue, the owner is to be told.
  std::deque<session::Work> withdrawn_ ABSL_GUARDED_BY(mutex_);
  // In the order of the log.
  std::vector<std::unique_ptr<UnderWay>> under_way_ ABSL_GUARDED_BY(mutex_);
  // Of batches that are over.
  std::vector<std::unique_ptr<UnderWay>> spare_ ABSL_GUARDED_BY(mutex_);
  bool delivering_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<uint32_t, std::unique_ptr<collective::Communicator>> communicators_ ABSL_GUARDED_BY(mutex_);
  absl::Status end_ ABSL_GUARDED_BY(mutex_);  // not OK: nothing further is executed
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace farandole::worker::execute

#endif  // FARANDOLE_WORKER_EXECUTE_EXECUTOR_H_
