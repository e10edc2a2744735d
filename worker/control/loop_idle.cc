#include "worker/control/loop_idle.h"

namespace farandole::worker::control {

void LoopIdle::SetSilent(bool silent) {
  // Every step says it; few change it.
  if (silent_.load(std::memory_order_relaxed) == silent) return;
  silent_ = silent;
  loop_->WakeDriver();
}

bool LoopIdle::Wait(const std::function<bool()>& woken) {
  if (silent_) return false;
  return loop_->Drive([this, &woken] { return silent_ || woken(); }, 0);
}

}  // namespace farandole::worker::control
