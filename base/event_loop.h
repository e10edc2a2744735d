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
#include "base/private_fd.h"

namespace farandole {

// One thread around epoll, timers and a queue of posted functions. State that belongs to a loop is touched on its
// thread only; others post. Methods that have to run on the loop's thread end in `FromLoop`.
class EventLoop {
 public:
  using Function = std::function<void()>;
  using FdHandler = std::function<void(uint32_t epoll_events)>;
  using TimerId = uint64_t;

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
  // moment `until`: for who would wait anyway for what this loop brings about, so that no switch of threads stands
  // between an event and who waits for it. Looks for events for up to `look_ns` after the last one before it sleeps.
  // False if another thread drives the loop, or it is stopped: wait in another way. The loop's own thread rests
  // meanwhile and for up to 10 ms afterwards, in which only Post wakes it. Not from a function of this loop.
  bool Drive(const std::function<bool()>& done, int64_t look_ns, TimePoint until = TimePoint::Infinite());
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

  TimePoint Now() const { return Clock::Monotonic().Now(); }

 private:
  // Waits for events and handles them, timers and what is posted. True if there was an event. `own`: in the loop's own
  // thread, not a driver's.
  bool Turn(bool own, bool wait, TimePoint until);
  void HandleEvents(const epoll_event* events, int count);
  void RunPosted();
  void RunTimers();
  int WaitMs(bool own, TimePoint until);
  // Of the loop's own thread: returns when no other one has driven the loop for a while, or this one is needed.
  void RestWhileDriven();
  void EndDrive();
  // Takes and gives back the right to run functions.
  void Hold() ABSL_EXCLUSIVE_LOCK_FUNCTION(run_mutex_);
  void LetGo() ABSL_UNLOCK_FUNCTION(run_mutex_);
  // If who waits would wait for longer than the next timer, which another thread may have set.
  void WakeForTimer();
  void Wake();
  void Rise();

  const std::string name_;
  absl::Status made_;  // constant
  PrivateFd epoll_;
  PrivateFd wake_;
  PrivateFd rise_;
  std::thread thread_;
  // Held while functions and handlers run, not while the thread waits.
  absl::Mutex run_mutex_;
  std::atomic<std::thread::id> holder_{};
  // Until when the thread that looks for timers waits, a driver or the loop's own, if it waits; the holder's.
  int64_t waits_until_ns_ = INT64_MAX;
  // The same of the loop's own alone, which may wait while another one drives; 0: it is awake. The holder's.
  int64_t own_waits_until_ns_ = 0;
  std::vector<Function> afterwards_;  // the holder's
  absl::Mutex mutex_;
  std::vector<Function> posted_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  // Threads that look at the queue before they wait: at first the loop's own, even if it is not started yet.
  int active_ ABSL_GUARDED_BY(mutex_) = 1;
  bool driven_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t drives_ ABSL_GUARDED_BY(mutex_) = 0;
  // The loop's own thread rests: it is woken through `rise_`.
  bool resting_ ABSL_GUARDED_BY(mutex_) = false;
  // Another thread wanted to drive meanwhile, and depends on the loop's own.
  bool refused_ ABSL_GUARDED_BY(mutex_) = false;
  // Handlers are shared so that one may remove itself while it runs.
  absl::flat_hash_map<int, std::shared_ptr<FdHandler>> handlers_;
  std::map<std::pair<int64_t, TimerId>, Function> timers_;
  absl::flat_hash_map<TimerId, int64_t> timer_times_;
  TimerId next_timer_ = 1;
};

}  // namespace farandole

#endif  // FARANDOLE_BASE_EVENT_LOOP_H_
