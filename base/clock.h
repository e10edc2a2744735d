#ifndef FARANDOLE_BASE_CLOCK_H_
#define FARANDOLE_BASE_CLOCK_H_

#include <cstdint>

namespace farandole {

// A point on CLOCK_MONOTONIC, or of a simulated clock. Never compared between machines.
class TimePoint {
 public:
  constexpr TimePoint() = default;
  constexpr explicit TimePoint(int64_t ns) : ns_(ns) {}
  static constexpr TimePoint Infinite() { return TimePoint(INT64_MAX); }
  constexpr int64_t ns() const { return ns_; }
  constexpr TimePoint PlusMs(int64_t ms) const {
    return ns_ > INT64_MAX - ms * 1000000 ? Infinite() : TimePoint(ns_ + ms * 1000000);
  }
  // Whole milliseconds from `earlier` to this.
  constexpr int64_t MsSince(TimePoint earlier) const { return (ns_ - earlier.ns_) / 1000000; }
  constexpr bool operator<(TimePoint o) const { return ns_ < o.ns_; }
  constexpr bool operator<=(TimePoint o) const { return ns_ <= o.ns_; }
  constexpr bool operator==(TimePoint o) const { return ns_ == o.ns_; }
  constexpr bool operator!=(TimePoint o) const { return ns_ != o.ns_; }

 private:
  int64_t ns_ = 0;
};

// The one source of time of a component; tests and the simulator bring their own.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint Now() const = 0;
  // CLOCK_MONOTONIC; lives for ever.
  static const Clock& Monotonic();
};

}  // namespace farandole

#endif  // FARANDOLE_BASE_CLOCK_H_
