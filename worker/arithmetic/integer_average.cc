#include "worker/arithmetic/integer_average.h"

#include <cstdlib>
#include <limits>

namespace farandole::worker::arithmetic {
namespace {

template <typename T>
void Average(void* out, const void* in, int64_t count, double postscale, int size) {
  constexpr double kMin = static_cast<double>(std::numeric_limits<T>::min());
  // The first whole number above the type's values.
  constexpr double kEnd = 2.0 * static_cast<double>(static_cast<T>(T{1} << (std::numeric_limits<T>::digits - 1)));
  const T* from = static_cast<const T*>(in);
  T* to = static_cast<T*>(out);
  for (int64_t i = 0; i < count; ++i) {
    const double value = static_cast<double>(from[i]) * postscale / size;
    to[i] = value >= kEnd  ? std::numeric_limits<T>::max()
            : value > kMin ? static_cast<T>(value)
                           : std::numeric_limits<T>::min();
  }
}

}  // namespace

bool IsInteger(DataType dtype) { return dtype <= DataType::kInt64; }

void AverageIntegers(DataType dtype, void* out, const void* in, int64_t count, double postscale, int size) {
  switch (dtype) {
    case DataType::kUint8:
      return Average<uint8_t>(out, in, count, postscale, size);
    case DataType::kInt8:
      return Average<int8_t>(out, in, count, postscale, size);
    case DataType::kUint16:
      return Average<uint16_t>(out, in, count, postscale, size);
    case DataType::kInt16:
      return Average<int16_t>(out, in, count, postscale, size);
    case DataType::kInt32:
      return Average<int32_t>(out, in, count, postscale, size);
    case DataType::kInt64:
      return Average<int64_t>(out, in, count, postscale, size);
    default:
      std::abort();
  }
}

}  // namespace farandole::worker::arithmetic
