#include "worker/control/deadline_watch.h"

#include <algorithm>

namespace farandole::worker::control {

void DeadlineWatch::Watch(TimePoint deadline) {
  if (deadline == TimePoint::Infinite()) return;
  absl::MutexLock lock(&mutex_);
  asked_ = std::min(asked_, deadline);
  if (looks_at_ <= deadline) return;
  looks_at_ = deadline;
  loop_->Post([this] { LookFromLoop(); });
}

void DeadlineWatch::LookFromLoop() {
  loop_->CancelTimerFromLoop(timer_);
  timer_ = 0;
  {
    absl::MutexLock lock(&mutex_);
    looks_at_ = TimePoint();
    asked_ = TimePoint::Infinite();
  }
  const TimePoint next = look_();
  absl::MutexLock lock(&mutex_);
  looks_at_ = std::min(next, asked_);
  if (looks_at_ == TimePoint::Infinite()) return;
  timer_ = loop_->AddTimerFromLoop(looks_at_, [this] { LookFromLoop(); });
}

}  // namespace farandole::worker::control
