#ifndef FARANDOLE_WORKER_OS_EVENT_COUNT_H_
#define FARANDOLE_WORKER_OS_EVENT_COUNT_H_

#include <atomic>
#include <cstdint>

namespace farandole::worker::os {

// A number that threads of one process wait on: remember Value(), look at the state it stands for, and WaitPast() that
// number if there is nothing to do. A futex, so that a wake-up is one system call, and none when nobody waits.
class EventCount {
 public:
  uint32_t Value() const { return value_.load(); }
  // After a change of the state; wakes everybody.
  void Advance();
  // Returns true when Value() differs from `seen`, false after `timeout_ms` (negative: waits for ever). May return true
  // early.
  bool WaitPast(uint32_t seen, int timeout_ms);

 private:
  std::atomic<uint32_t> value_{0};
  std::atomic<uint32_t> waiters_{0};
};

}  // namespace farandole::worker::os

#endif  // FARANDOLE_WORKER_OS_EVENT_COUNT_H_
