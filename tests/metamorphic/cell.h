#ifndef FARANDOLE_TESTS_METAMORPHIC_CELL_H_
#define FARANDOLE_TESTS_METAMORPHIC_CELL_H_

#include <cstdint>
#include <cstring>

#include "proto/types.h"
#include "worker/arithmetic/half.h"

// Single elements, read and written without the product's kernels.
namespace farandole::metamorphic {

inline bool IsInteger(DataType dtype) { return dtype < DataType::kFloat16 || dtype == DataType::kBool; }

inline bool IsSigned(DataType dtype) { return dtype != DataType::kUint8 && dtype != DataType::kUint16; }

// The lower bits of `value`.
inline void WriteInteger(DataType dtype, char* cell, uint64_t value) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
  std::memcpy(cell, &value, SizeOf(dtype));
}

// With the sign drawn out to 64 bits.
inline int64_t ReadInteger(DataType dtype, const char* cell) {
  uint64_t value = 0;
  const int bits = static_cast<int>(SizeOf(dtype)) * 8;
  std::memcpy(&value, cell, bits / 8);
  if (!IsSigned(dtype) || bits == 64) return static_cast<int64_t>(value);
  return static_cast<int64_t>(value << (64 - bits)) >> (64 - bits);
}

// Rounded to nearest even; to 16 bits by way of float32.
inline void WriteFloat(DataType dtype, char* cell, double value) {
  const auto put = [cell](auto typed) { std::memcpy(cell, &typed, sizeof typed); };
  const float single = static_cast<float>(value);
  if (dtype == DataType::kFloat64) return put(value);
  if (dtype == DataType::kFloat32) return put(single);
  put(dtype == DataType::kFloat16 ? worker::arithmetic::Float16FromFloat(single)
                                  : worker::arithmetic::Bfloat16FromFloat(single));
}

inline double ReadFloat(DataType dtype, const char* cell) {
  double wide;
  float single;
  uint16_t half;
  if (dtype == DataType::kFloat64) {
    std::memcpy(&wide, cell, sizeof wide);
    return wide;
  }
  if (dtype == DataType::kFloat32) {
    std::memcpy(&single, cell, sizeof single);
    return single;
  }
  std::memcpy(&half, cell, sizeof half);
  return dtype == DataType::kFloat16 ? worker::arithmetic::FloatFromFloat16(half)
                                     : worker::arithmetic::FloatFromBfloat16(half);
}

// Half the distance from 1 to the next number: the relative error of one rounding.
inline double UnitRoundoff(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat16:
      return 0x1p-11;
    case DataType::kBfloat16:
      return 0x1p-8;
    case DataType::kFloat32:
      return 0x1p-24;
    default:
      return 0x1p-53;
  }
}

// The absolute error of one rounding below the smallest normal number.
inline double SmallestHalf(DataType dtype) { return dtype == DataType::kFloat16 ? 0x1p-25 : 0x1p-134; }

}  // namespace farandole::metamorphic

#endif  // FARANDOLE_TESTS_METAMORPHIC_CELL_H_
