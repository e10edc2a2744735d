#include "worker/integer_average.h"

#include <cstdlib>
#include <limits>

namespace farandole {
namespace {

template <typename T>
void Average(void* out, const void* in, int64_t count, double postscale, int size) {
  constexpr double kMin = static_cast<double>(std::numeric_limits<T>::min());
  // The first double above the type's values.
  constexpr double kEnd = -kMin;
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
  if (dtype == DataType::kInt32) {
    Average<int32_t>(out, in, count, postscale, size);
  } else if (dtype == DataType::kInt64) {
    Average<int64_t>(out, in, count, postscale, size);
  } else {
    std::abort();
  }
}

}  // namespace farandole
