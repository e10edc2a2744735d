#ifndef FARANDOLE_WORKER_ARITHMETIC_SATURATED_H_
#define FARANDOLE_WORKER_ARITHMETIC_SATURATED_H_

#include <limits>

namespace farandole::worker::arithmetic {

// The integer that `value` is, truncated toward zero; what the type cannot hold becomes its nearest value, NaN its
// smallest. Also compiled for GPUs.
template <typename T>
inline T Saturated(double value) {
  constexpr double kLow = static_cast<double>(std::numeric_limits<T>::min());
  // The first whole number above the type's values; its largest value is no double for 64-bit types.
  constexpr double kBeyond = 2.0 * static_cast<double>(static_cast<T>(T{1} << (std::numeric_limits<T>::digits - 1)));
  if (value >= kBeyond) return std::numeric_limits<T>::max();
  return value > kLow ? static_cast<T>(value) : std::numeric_limits<T>::min();
}

}  // namespace farandole::worker::arithmetic

#endif  // FARANDOLE_WORKER_ARITHMETIC_SATURATED_H_
