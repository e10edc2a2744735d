#ifndef FARANDOLE_WORKER_KERNELS_ELEMENTS_H_
#define FARANDOLE_WORKER_KERNELS_ELEMENTS_H_

#include <cstdint>

#include "worker/arithmetic/half.h"
#include "worker/arithmetic/saturated.h"
#include "worker/kernels/move_piece.h"

// What becomes of one element of each type; move_piece.h says which numbers these are. For host and device: a kind has
//   In, Out              what is read and written; floating point as its bits, so that no copy changes a NaN
//   Factors              those of a piece, in the form in which they are applied
//   Copies(piece)        whether it has none
//   Copied(In)           an element without factors, and
//   Scaled(In, Factors)  with them
//   kAbreast             vectors of them that a lane scales side by side, as far as its registers go
namespace farandole::worker::kernels {

// Arithmetic in T. A narrower type than In wraps around, so sums in a wider type give what sums in T would have given.
template <typename T, typename From = T, typename To = T>
struct Integers {
  using In = From;
  using Out = To;
  static constexpr int kAbreast = 1;
  struct Factors {
    explicit Factors(const MovePiece& piece) : factor(piece.factor), divisor(piece.divisor) {}
    double factor;
    int32_t divisor;
  };
  static bool Copies(const MovePiece& piece) { return piece.factor == 1 && piece.divisor == 1; }
  static Out Copied(In value) { return static_cast<Out>(static_cast<T>(value)); }
  static Out Scaled(In value, const Factors& by) {
    const double product = static_cast<double>(static_cast<T>(value)) * by.factor;
    return static_cast<Out>(arithmetic::Saturated<T>(by.divisor == 1 ? product : product / by.divisor));
  }
};

// What NCCL lacks travels as int32.
using Int16sToInt32 = Integers<int16_t, int16_t, int32_t>;
using Int32sToInt16 = Integers<int16_t, int32_t, int16_t>;
using Uint16sToInt32 = Integers<uint16_t, uint16_t, int32_t>;
using Int32sToUint16 = Integers<uint16_t, int32_t, uint16_t>;

struct Bools {
  using In = uint8_t;
  using Out = uint8_t;
  static constexpr int kAbreast = 1;
  struct Factors {
    explicit Factors(const MovePiece&) {}
  };
  static bool Copies(const MovePiece&) { return true; }
  static uint8_t Copied(uint8_t value) { return value; }
  static uint8_t Scaled(uint8_t value, const Factors&) { return value; }
};

// Of which the bits are moved.
template <typename Bits>
struct FloatingPoint {
  using In = Bits;
  using Out = Bits;
  static constexpr int kAbreast = sizeof(Bits) > 2 ? 4 : 2;
  static bool Copies(const MovePiece& piece) { return piece.factor == 1 && piece.mean == 1; }
  static Bits Copied(Bits value) { return value; }
};

struct Float32s : FloatingPoint<uint32_t> {
  struct Factors {
    explicit Factors(const MovePiece& piece)
        : factor(static_cast<float>(piece.factor)),
          single_mean(static_cast<float>(piece.mean)),
          mean(piece.mean),
          single(single_mean == mean) {}
    float factor, single_mean;
    double mean;
    // The product with the mean is rounded once, so float32 will do, and most devices are far slower in double.
    bool single;
  };
  static uint32_t Scaled(uint32_t bits, const Factors& by) {
    const float value = arithmetic::FloatFromBits(bits);
    const float average = by.single ? value * by.single_mean : static_cast<float>(static_cast<double>(value) * by.mean);
    const float result = average * by.factor;
    return result != result ? 0xffffffff : arithmetic::BitsFromFloat(result);
  }
};

struct Float64s : FloatingPoint<uint64_t> {
  struct Factors {
    explicit Factors(const MovePiece& piece) : factor(piece.factor), mean(piece.mean) {}
    double factor, mean;
  };
  static uint64_t Scaled(uint64_t bits, const Factors& by) {
    double value;
    __builtin_memcpy(&value, &bits, sizeof value);
    const double result = value * by.mean * by.factor;
    __builtin_memcpy(&bits, &result, sizeof bits);
    return result != result ? ~uint64_t{0} : bits;
  }
};

// 16-bit floating point, by way of float32.
template <float (*kWiden)(uint16_t), uint16_t (*kNarrow)(float)>
struct Halves : FloatingPoint<uint16_t> {
  struct Factors {
    explicit Factors(const MovePiece& piece)
        : first(static_cast<float>(piece.mean == 1 ? piece.factor : piece.mean)),
          second(static_cast<float>(piece.factor)),
          both(piece.mean != 1 && piece.factor != 1) {}
    float first, second;
    bool both;
  };
  static uint16_t Scaled(uint16_t bits, const Factors& by) {
    float result = kWiden(bits) * by.first;
    if (by.both) result = kWiden(kNarrow(result)) * by.second;
    return result != result ? 0xffff : kNarrow(result);
  }
};
using Float16s = Halves<&arithmetic::FloatFromFloat16, &arithmetic::Float16FromFloat>;
using Bfloat16s = Halves<&arithmetic::FloatFromBfloat16, &arithmetic::Bfloat16FromFloat>;

}  // namespace farandole::worker::kernels

#endif  // FARANDOLE_WORKER_KERNELS_ELEMENTS_H_
