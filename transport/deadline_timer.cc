#include "transport/deadline_timer.h"

#include <utility>

namespace farandole::transport {

DeadlineTimer::DeadlineTimer(EventLoop* loop, Expire expire) : loop_(loop), expire_(std::move(expire)) {}

void DeadlineTimer::Watch(TimePoint deadline) {
  if (deadline.ns() >= armed_ns_.load()) return;
  loop_->Post([self = shared_from_this(), deadline] { self->ArmFromLoop(deadline); });
}

void DeadlineTimer::StopFromLoop() {
  stopped_ = true;
  loop_->CancelTimerFromLoop(timer_);
  expire_ = nullptr;
}

void DeadlineTimer::ArmFromLoop(TimePoint deadline) {
  if (stopped_ || deadline.ns() >= armed_ns_.load()) return;
  loop_->CancelTimerFromLoop(timer_);
  armed_ns_.store(deadline.ns());
  timer_ = loop_->AddTimerFromLoop(deadline, [self = shared_from_this()] { self->FireFromLoop(); });
}

void DeadlineTimer::FireFromLoop() {
  // Disarmed first: an operation posted while `expire_` looks arms the timer by itself.
  armed_ns_.store(INT64_MAX);
  const TimePoint next = expire_(loop_->Now());
  if (!stopped_) ArmFromLoop(next);
}

}  // namespace farandole::transport
