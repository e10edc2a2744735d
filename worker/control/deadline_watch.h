#ifndef FARANDOLE_WORKER_CONTROL_DEADLINE_WATCH_H_
#define FARANDOLE_WORKER_CONTROL_DEADLINE_WATCH_H_

#include <functional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/event_loop.h"

namespace farandole::worker::control {

// Looks at something on the control loop when its deadline has come, which others may bring nearer at any time. A
// deadline that goes away or moves back costs nothing: the look comes too early then, and finds the new one. So the
// loop is woken at most once per deadline, however often it moves.
class DeadlineWatch {
 public:
  // `look`, on the loop: does what is due and returns the next deadline; Infinite: there is none. `loop` outlives this.
  DeadlineWatch(EventLoop* loop, std::function<TimePoint()> look) : loop_(loop), look_(std::move(look)) {}

  // Any thread, also inside `look`, and holding locks that `look` takes: looks at `deadline` or earlier.
  void Watch(TimePoint deadline);

 private:
  void LookFromLoop();

  EventLoop* const loop_;
  const std::function<TimePoint()> look_;
  EventLoop::TimerId timer_ = 0;  // the loop's
  absl::Mutex mutex_;
  // The loop looks then or earlier; 0: it looks right now; Infinite: it does not.
  TimePoint looks_at_ ABSL_GUARDED_BY(mutex_) = TimePoint::Infinite();
  // What was asked for while it looked.
  TimePoint asked_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole::worker::control

#endif  // FARANDOLE_WORKER_CONTROL_DEADLINE_WATCH_H_
