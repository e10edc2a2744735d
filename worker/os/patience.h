#ifndef FARANDOLE_WORKER_OS_PATIENCE_H_
#define FARANDOLE_WORKER_OS_PATIENCE_H_

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace farandole::worker::os {

// Decides whether a thread that waits for an answer looks for it a while, giving its CPU away between looks, before it
// parks. Being woken on a CPU that has gone idle costs tens of microseconds, a good part of a small collective. Looking
// in vain costs CPU time that others may need; so after it the next waits park at once: 1, 3, 7, ... up to 63 of them.
// A look ends when the CPU comes back late, and without an answer: something else on this host wants it, and who has
// slept gets it sooner than who gives it away again and again. Any thread.
class Patience {
 public:
  // How long one look lasts: a small collective of two busy ranks, negotiation included, is answered within it.
  static constexpr int64_t kLookNs = 500 * 1000;
  // The CPU was away for longer than a peer that shares it needs for an answer; a time slice is 3 ms or more.
  static constexpr int64_t kTakenNs = 300 * 1000;

  explicit Patience(const Clock& clock) : clock_(clock) {}

  // Off at first. On where every rank of the host has a CPU of its own.
  void Enable(bool enabled) { enabled_.store(enabled, std::memory_order_relaxed); }

  // True as soon as `done` is; false if it was not in time, or if this wait should park at once.
  template <typename Done>
  bool Look(Done done) {
    if (!Worthwhile()) return false;
    int64_t before = clock_.Now().ns(), now = before;
    const int64_t end = now + kLookNs;
    for (; now < end && now - before <= kTakenNs; now = clock_.Now().ns()) {
      before = now;
      if (done()) {
        InTime();
        return true;
      }
      GiveWay();
    }
    if (done()) return true;
    InVain();
    return false;
  }

 private:
  static void GiveWay();
  bool Worthwhile();
  void InTime();
  void InVain();

  const Clock& clock_;
  std::atomic<bool> enabled_{false};
  // Waits that park at once: still to come, and after the next look in vain. Threads that race here skip one wait more
  // or less, which does no harm.
  std::atomic<int> skip_{0};
  std::atomic<int> skip_next_{1};
};

}  // namespace farandole::worker::os

#endif  // FARANDOLE_WORKER_OS_PATIENCE_H_
