#ifndef FARANDOLE_BASE_EVENT_LOOP_H_
#define FARANDOLE_BASE_EVENT_LOOP_H_

#include <sys/epoll.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/loop_lending.h"
#include "base/private_fd.h"

namespace farandole {

// One thread around epoll, timers and a queue of posted functions. State that belongs to a loop is touched on its
// thread only; others post. Methods that have to run on the loop's thread end in `FromLoop`.
class EventLoop {
 public:
  using Function = std::function<void()>;
  using FdHandler = std::function<void(uint32_t epoll_events)>;
  using TimerId = uint64_t;

  // A queue in memory that the loop asks beside its descriptors, such as that of completions of a network device. Both
  // methods run as the loop.
  class Poller {
   public:
    virtual ~Poller() = default;
    // Handles what is in the queue; true if there was something.
    virtual bool PollFromLoop() = 0;
    // The loop is about to sleep: what comes from now on makes a descriptor readable that the loop watches.
    virtual void ArmFromLoop() = 0;
  };

  // `name` (at most 15 bytes) names the thread in ps, gdb and docs/thread-model.md.
  explicit EventLoop(std::string name);
  // Stops and joins; functions still queued are destroyed without being run.
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Starts the thread. Signals are blocked in it. RESOURCE_EXHAUSTED if the system gives no thread or no descriptors.
  absl::Status Start();
  // Runs the loop in the calling thread instead, until Stop(). For programs of ours: ends the process if the system
  // gives no descriptors.
  void Run();
  // Any thread, idempotent; does not join.
  void Stop();
  // Stop() and wait for the thread. Not from the loop's thread.
  void Join();

  // Any thread: runs `fn` on the loop, in the order posted. After Stop() it is dropped.
  void Post(Function fn);
  // The same, but in the calling thread and before this returns if the loop is idle: spares a switch to its thread
  // where that would be the next step of something urgent. The caller must hold no lock that functions of this loop
  // take. State of the loop is safe: whoever runs functions, this thread or another one, holds the loop meanwhile.
  void RunOrPost(Function fn);
  // Runs `fn` in the calling thread, which waits for its turn; not from a function of this loop.
  void RunHere(const Function& fn);
  // From a function of this loop: `fn` runs in this thread as soon as it has let go of the loop. For what may block,
  // and for calls of code that is not ours: the loop can serve other threads meanwhile.
  void Afterwards(Function fn) { afterwards_.push_back(std::move(fn)); }
  // Runs the loop in the calling thread, in place of its own, until `done()`, which is asked after each turn, or the
  // moment `until`: for who would wait anyway for what this loop brings about (see LoopLending). Looks for events for
  // up to `look_ns` after the last one before it sleeps. False if another thread drives the loop, or it is stopped:
  // wait in another way. Not from a function of this loop. What is to run afterwards runs when the loop is given back,
  // so that its own thread can serve others meanwhile; then the loop is borrowed again.
  bool Drive(const std::function<bool()>& done, int64_t look_ns, TimePoint until = TimePoint::Infinite());
  // Any thread: lets who drives the loop ask `done` now. Costs little while nobody does.
  void WakeDriver() { lending_.WakeBorrower(); }
  // True in a function or handler of this loop.
  bool InLoop() const { return holder_.load(std::memory_order_relaxed) == std::this_thread::get_id(); }

  // Level-triggered, unless EPOLLET is among the events. `fd` stays the caller's; it must be removed before it is
  // closed.
  void AddFdFromLoop(int fd, uint32_t epoll_events, FdHandler handler);
  void ModifyFdFromLoop(int fd, uint32_t epoll_events);
  void RemoveFdFromLoop(int fd);

  // Runs `fn` once, not before `when`. Cancelling an id that has run is harmless.
  TimerId AddTimerFromLoop(TimePoint when, Function fn);
  void CancelTimerFromLoop(TimerId id);

  // Asked in every turn from then on; nullptr: none. A thread that looks for events (see Drive) asks it much more often
  // than it makes the system call for descriptors.
  void SetPollerFromLoop(Poller* poller) { poller_.store(poller, std::memory_order_release); }

  TimePoint Now() const { return Clock::Monotonic().Now(); }

 private:
  // Waits for events, at most until `until`, and handles them, timers and what is posted. True if there was an event.
  // `afterwards` is for the caller to run.
  bool Turn(LoopLending::Runner runner, bool wait, TimePoint until, std::vector<Function>* afterwards);
  // What the poller has before the loop sleeps; false: it may.
  bool PollBeforeWait(std::vector<Function>* afterwards);
  int BeginWaitMs(LoopLending::Runner runner, TimePoint until);
  void HandleEvents(const epoll_event* events, int count);
  void RunTimers();
  void GiveBack();
  TimePoint NextTimer() const {
    return timers_.empty() ? TimePoint::Infinite() : TimePoint(timers_.begin()->first.first);
  }
  // Takes and gives back the right to run functions; the latter returns what is to run afterwards.
  void Hold() ABSL_EXCLUSIVE_LOCK_FUNCTION(run_mutex_);
  std::vector<Function> LetGo() ABSL_UNLOCK_FUNCTION(run_mutex_);

  const std::string name_;
  absl::Status made_;  // constant
  PrivateFd epoll_;
  LoopLending lending_;
  std::thread thread_;
  // Held while functions and handlers run, not while the thread waits.
  absl::Mutex run_mutex_;
  std::atomic<std::thread::id> holder_{};
  std::vector<Function> afterwards_;  // the holder's
  std::atomic<Poller*> poller_{nullptr};
  int looks_ = 0;  // the borrower's
  // Handlers are shared so that one may remove itself while it runs.
  absl::flat_hash_map<int, std::shared_ptr<FdHandler>> handlers_;
  std::map<std::pair<int64_t, TimerId>, Function> timers_;
  absl::flat_hash_map<TimerId, int64_t> timer_times_;
  TimerId next_timer_ = 1;
};

}  // namespace farandole

#endif  // FARANDOLE_BASE_EVENT_LOOP_H_
