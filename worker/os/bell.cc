#include "worker/os/bell.h"

#include <sys/eventfd.h>
#include <unistd.h>

namespace farandole::worker::os {

Bell::Bell() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Bell::Begin() {
  waiter_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  state_.store(kWaiting);
}

void Bell::End() {
  if (state_.exchange(kBusy) == kRung) ++unread_;
  uint64_t count;
  if (unread_ > 0 && read(fd_.get(), &count, sizeof count) == sizeof count) unread_ -= count;
}

void Bell::Ring() {
  if (state_.load() != kWaiting || waiter_.load(std::memory_order_relaxed) == std::this_thread::get_id()) return;
  int waiting = kWaiting;
  if (!state_.compare_exchange_strong(waiting, kRung)) return;
  const uint64_t one = 1;
  (void)!write(fd_.get(), &one, sizeof one);
}

}  // namespace farandole::worker::os
