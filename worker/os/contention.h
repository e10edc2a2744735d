#ifndef FARANDOLE_WORKER_OS_CONTENTION_H_
#define FARANDOLE_WORKER_OS_CONTENTION_H_

#include <algorithm>
#include <cstdint>

namespace farandole::worker::os {

// Whether something else wants the CPU of a thread, as far as that shows: it comes back late when it is given away. For
// how long that is expected to last doubles each time that it proves true, and sinks by a sixteenth when the CPU comes
// back at once: a thread of the same process that is about to sleep costs a moment of caution, neighbours that never
// rest, and leave the CPU alone for a few looks now and then, one look in a long while. A whole wait without lateness
// forgets nearly everything. One thread.
class Contention {
 public:
  static constexpr int64_t kLeastNs = 500 * 1000;
  static constexpr int64_t kMostNs = 32 * 1000 * 1000;

  // `late_ns`: the CPU was away for longer than what this thread waits for may take.
  explicit Contention(int64_t late_ns) : late_ns_(late_ns) {}

  bool Expected(int64_t now_ns) const { return now_ns < until_ns_; }
  // The CPU was given away, and came back.
  void CameBack(int64_t gone_ns, int64_t back_ns) {
    if (back_ns - gone_ns <= late_ns_) {
      lasts_ns_ = std::max(kLeastNs, lasts_ns_ - lasts_ns_ / 16);
      return;
    }
    until_ns_ = back_ns + lasts_ns_;
    lasts_ns_ = std::min(kMostNs, 2 * lasts_ns_);
  }

 private:
  const int64_t late_ns_;
  int64_t until_ns_ = 0;
  int64_t lasts_ns_ = kLeastNs;
};

}  // namespace farandole::worker::os

#endif  // FARANDOLE_WORKER_OS_CONTENTION_H_
