#include "worker/os/event_count.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

namespace farandole::worker::os {

void EventCount::Advance() {
  value_.fetch_add(1);
  if (waiters_.load() == 0) return;
  syscall(SYS_futex, &value_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

bool EventCount::WaitPast(uint32_t seen, int timeout_ms) {
  if (value_.load() != seen) return true;
  if (timeout_ms == 0) return false;
  timespec relative{timeout_ms / 1000, (timeout_ms % 1000) * 1000000L};
  // Counted before the kernel compares: an Advance that this thread does not see yet sees the waiter.
  waiters_.fetch_add(1);
  const long rc =
      syscall(SYS_futex, &value_, FUTEX_WAIT_PRIVATE, seen, timeout_ms < 0 ? nullptr : &relative, nullptr, 0);
  const bool timed_out = rc != 0 && errno == ETIMEDOUT;
  waiters_.fetch_sub(1);
  return !timed_out || value_.load() != seen;
}

}  // namespace farandole::worker::os
