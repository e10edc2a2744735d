#include "base/clock.h"

#include <ctime>

namespace farandole {
namespace {

class MonotonicClock final : public Clock {
 public:
  TimePoint Now() const override {
    timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return TimePoint(int64_t{ts.tv_sec} * 1000000000 + ts.tv_nsec);
  }
};

}  // namespace

const Clock& Clock::Monotonic() {
  static const MonotonicClock* clock = new MonotonicClock;
  return *clock;
}

}  // namespace farandole
