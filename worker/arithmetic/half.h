#ifndef FARANDOLE_WORKER_ARITHMETIC_HALF_H_
#define FARANDOLE_WORKER_ARITHMETIC_HALF_H_

#include <cstdint>

// float16 and bfloat16 as their bits, to and from float32 in plain integer arithmetic: round to nearest even, NaN stays
// NaN (quiet), denormals and infinities exact. Also compiled for GPUs, which have no standard library.
namespace farandole::worker::arithmetic {

inline float FloatFromBits(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

inline uint32_t BitsFromFloat(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float FloatFromBfloat16(uint16_t half) { return FloatFromBits(static_cast<uint32_t>(half) << 16); }

inline uint16_t Bfloat16FromFloat(float value) {
  const uint32_t bits = BitsFromFloat(value);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const uint32_t quiet = (bits >> 16) | 0x40;
  return static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

inline float FloatFromFloat16(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t magnitude = half & 0x7fff;
  if (magnitude >= 0x7c00) {  // infinity, NaN
    const uint32_t quiet = magnitude > 0x7c00 ? 0x400000 : 0;
    return FloatFromBits(sign | 0x7f800000 | (magnitude & 0x3ff) << 13 | quiet);
  }
  // Exponent re-biased by a multiplication, which also normalises denormals exactly.
  const float scaled = FloatFromBits(magnitude << 13) * FloatFromBits(0x77800000);  // 2^112
  return FloatFromBits(sign | BitsFromFloat(scaled));
}

inline uint16_t Float16FromFloat(float value) {
  const uint32_t bits = BitsFromFloat(value);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  uint32_t half;
  if (magnitude > 0x7f800000) {
    half = 0x7e00 | (magnitude >> 13 & 0x3ff);
  } else if (magnitude >= 0x477ff000) {  // 65520 and above round to infinity
    half = 0x7c00;
  } else if (magnitude < 0x38800000) {  // below 2^-14: denormal; adding 0.5 lets the FPU round at the right bit
    half = BitsFromFloat(FloatFromBits(magnitude) + 0.5f) - 0x3f000000;
  } else {
    half = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
  }
  return static_cast<uint16_t>(sign | half);
}

}  // namespace farandole::worker::arithmetic

#endif  // FARANDOLE_WORKER_ARITHMETIC_HALF_H_
