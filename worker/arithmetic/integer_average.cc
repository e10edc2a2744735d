#include "worker/arithmetic/integer_average.h"

#include <cstdlib>

#include "worker/arithmetic/saturated.h"

namespace farandole::worker::arithmetic {
namespace {

template <typename T>
void Average(void* out, const void* in, int64_t count, double postscale, int size) {
  const T* from = static_cast<const T*>(in);
  T* to = static_cast<T*>(out);
  for (int64_t i = 0; i < count; ++i) to[i] = Saturated<T>(static_cast<double>(from[i]) * postscale / size);
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
