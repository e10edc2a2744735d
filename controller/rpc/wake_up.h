#ifndef FARANDOLE_CONTROLLER_RPC_WAKE_UP_H_
#define FARANDOLE_CONTROLLER_RPC_WAKE_UP_H_

#include <functional>
#include <utility>

#include "base/event_loop.h"

namespace farandole::controller::rpc {

// One timer on a loop, set again and again from any thread.
class WakeUp {
 public:
  // `fn` runs on the loop, which has stopped or not begun when this is destroyed.
  WakeUp(EventLoop* loop, std::function<void()> fn) : loop_(loop), fn_(std::move(fn)) {}
  WakeUp(const WakeUp&) = delete;
  WakeUp& operator=(const WakeUp&) = delete;

  // Any thread: wakes once, not before `when`, and not at the moment that was set before. A wake-up that is under way
  // already comes nevertheless.
  void At(TimePoint when) {
    loop_->Post([this, when] {
      loop_->CancelTimerFromLoop(timer_);
      timer_ = loop_->AddTimerFromLoop(when, fn_);
    });
  }

 private:
  EventLoop* const loop_;
  const std::function<void()> fn_;
  EventLoop::TimerId timer_ = 0;  // the last one; on the loop
};

}  // namespace farandole::controller::rpc

#endif  // FARANDOLE_CONTROLLER_RPC_WAKE_UP_H_
