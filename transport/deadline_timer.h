#ifndef FARANDOLE_TRANSPORT_DEADLINE_TIMER_H_
#define FARANDOLE_TRANSPORT_DEADLINE_TIMER_H_

#include <atomic>
#include <functional>
#include <memory>

#include "base/clock.h"
#include "base/event_loop.h"

namespace farandole::transport {

// Watches the deadlines of many operations with one timer of a loop. It is set for the earliest deadline it was told
// and is not touched when operations complete: a timer that fires with nothing overdue is set again for what is left.
// Posting an operation whose deadline is not the earliest therefore costs one comparison.
class DeadlineTimer : public std::enable_shared_from_this<DeadlineTimer> {
 public:
  // Fails what is overdue at `now` and returns the earliest deadline of what is left. Runs on the loop.
  using Expire = std::function<TimePoint(TimePoint now)>;

  DeadlineTimer(EventLoop* loop, Expire expire);

  // Any thread. The operation must be visible to `expire` before.
  void Watch(TimePoint deadline);
  // After this `expire` is not called and the loop not used any more.
  void StopFromLoop();

 private:
  void ArmFromLoop(TimePoint deadline);
  void FireFromLoop();

  EventLoop* const loop_;
  Expire expire_;
  std::atomic<int64_t> armed_ns_{INT64_MAX};
  EventLoop::TimerId timer_ = 0;
  bool stopped_ = false;
};

}  // namespace farandole::transport

#endif  // FARANDOLE_TRANSPORT_DEADLINE_TIMER_H_
