#include "controller/hub/strand.h"

#include <utility>

namespace farandole::controller::hub {

void Strand::Post(Function fn) {
  {
    absl::MutexLock lock(&mutex_);
    queue_.push_back(std::move(fn));
    if (running_) return;
    running_ = true;
  }
  for (;;) {
    Function next;
    {
      absl::MutexLock lock(&mutex_);
      if (queue_.empty()) {
        running_ = false;
        return;
      }
      next = std::move(queue_.front());
      queue_.pop_front();
    }
    next();
  }
}

}  // namespace farandole::controller::hub
