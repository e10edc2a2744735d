#ifndef FARANDOLE_WORKER_OS_BELL_H_
#define FARANDOLE_WORKER_OS_BELL_H_

#include <atomic>
#include <cstdint>
#include <thread>

#include "base/private_fd.h"

namespace farandole::worker::os {

// Ends the poll() in which one thread waits, from any other. An eventfd that is written at most once for each wait, so
// that who rings pays a system call only while that thread waits. A write that comes too late is read by the next End.
class Bell {
 public:
  Bell();
  // False: the system gave no descriptor, and nothing would end a wait.
  bool valid() const { return fd_.valid(); }
  // Can be read when the bell has rung.
  int fd() const { return fd_.get(); }

  // The waiting thread. Begin comes before its last look at what it waits for, End after the poll. Between them it may
  // return early for a ring that was meant for the wait before.
  void Begin();
  void End();
  // Any thread, after a change of what is waited for. Nothing if it is the waiting thread's own: that one will look.
  void Ring();

 private:
  enum State : int { kBusy, kWaiting, kRung };

  const PrivateFd fd_;
  std::atomic<int> state_{kBusy};
  std::atomic<std::thread::id> waiter_{};
  // Rings whose write to the descriptor has not been read yet: it may come after the end of the wait. The waiting
  // thread's.
  uint64_t unread_ = 0;
};

}  // namespace farandole::worker::os

#endif  // FARANDOLE_WORKER_OS_BELL_H_
