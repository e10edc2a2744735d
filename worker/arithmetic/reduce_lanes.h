#ifndef FARANDOLE_WORKER_ARITHMETIC_REDUCE_LANES_H_
#define FARANDOLE_WORKER_ARITHMETIC_REDUCE_LANES_H_

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "worker/arithmetic/reduce_kernels.h"

// The element types of the passes in reduce_loops.h, as vectors of the compiler: how they are widened, scaled, combined
// and rounded. For inclusion there only, since these functions are compiled for one instruction set in each file.
namespace farandole::worker::arithmetic {
namespace reduce_loops {

template <typename T, int kBytes>
using Vector __attribute__((vector_size(kBytes))) = T;

#define FARANDOLE_INLINE inline __attribute__((always_inline))

template <typename V>
FARANDOLE_INLINE V LoadVector(const char* from) {
  V value;
  __builtin_memcpy(&value, from, sizeof value);
  return value;
}

// By way of memory, which takes as long as some vectors would.
template <typename V>
FARANDOLE_INLINE V LoadPartOf(const char* from, int64_t bytes) {
  V value = {};
  std::memcpy(&value, from, bytes);
  return value;
}
template <typename V>
FARANDOLE_INLINE void StorePartOf(char* to, V value, int64_t bytes) {
  std::memcpy(to, &value, bytes);
}

// Every NaN as the one of which all bits are set: `bits` are those of `value`, or of what it was rounded to. Of two NaN
// the hardware passes on the first, but which operand is the first the compiler chooses anew for each loop, so that two
// ranks could get different ones.
template <typename V, typename B>
FARANDOLE_INLINE B OneNan(V value, B bits) {
  return bits | (B)(value != value);
}

// What a vector in registers has of memory: lanes of integers.
template <typename Form, typename T>
struct Integers {
  using Element = T;
  using Lanes = Vector<T, Form::kBytes>;
  using Unsigned = Vector<std::make_unsigned_t<T>, Form::kBytes>;
  using Stored = Lanes;
  struct Factors {
    explicit Factors(const Combination&) {}
  };
  static FARANDOLE_INLINE Lanes Wide(Stored value) { return value; }
  static FARANDOLE_INLINE Stored Narrow(Lanes value) { return value; }
  static FARANDOLE_INLINE Lanes Prescaled(Lanes value, const Factors&) { return value; }
  static FARANDOLE_INLINE Lanes Postscaled(Lanes value, const Factors&) { return value; }
  // Unsigned: wraps around.
  static FARANDOLE_INLINE Lanes Add(Lanes a, Lanes b) { return (Lanes)((Unsigned)a + (Unsigned)b); }
  static FARANDOLE_INLINE Lanes Multiply(Lanes a, Lanes b) { return (Lanes)((Unsigned)a * (Unsigned)b); }
  static FARANDOLE_INLINE Lanes Least(Lanes a, Lanes b) { return a < b ? a : b; }
  static FARANDOLE_INLINE Lanes Greatest(Lanes a, Lanes b) { return a > b ? a : b; }
};

// Floating-point lanes of `kBytes` together. Order of numbers by their bits: as signed integers of the same size, with
// the magnitudes of negative ones turned round; total, so that the order of the operands does not matter.
template <typename T, int kBytes>
struct Arithmetic {
  using Lanes = Vector<T, kBytes>;
  using Bit = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  using Bits = Vector<Bit, kBytes>;
  static constexpr Bit kMagnitude = std::numeric_limits<Bit>::max();
  static constexpr Bit kInfinity = sizeof(T) == 4 ? Bit{0x7f800000} : static_cast<Bit>(0x7ff0000000000000);

  static FARANDOLE_INLINE Lanes Add(Lanes a, Lanes b) { return a + b; }
  static FARANDOLE_INLINE Lanes Multiply(Lanes a, Lanes b) { return a * b; }
  static FARANDOLE_INLINE Bits Key(Bits bits) { return bits ^ ((bits >> (8 * sizeof(T) - 1)) & kMagnitude); }
  static FARANDOLE_INLINE Lanes NanIfEither(Bits a, Bits b, Bits otherwise) {
    const Bits nan = ((a & kMagnitude) > kInfinity) | ((b & kMagnitude) > kInfinity);
    return (Lanes)(otherwise | nan);
  }
  static FARANDOLE_INLINE Lanes Least(Lanes x, Lanes y) {
    const Bits a = (Bits)x, b = (Bits)y;
    return NanIfEither(a, b, Key(a) < Key(b) ? a : b);
  }
  static FARANDOLE_INLINE Lanes Greatest(Lanes x, Lanes y) {
    const Bits a = (Bits)x, b = (Bits)y;
    return NanIfEither(a, b, Key(a) > Key(b) ? a : b);
  }
};

// Factors of the lanes' own type: at most one behind the combination, a postscale or a mean.
template <typename T, int kBytes>
struct OwnFactors : Arithmetic<T, kBytes> {
  using Lanes = Vector<T, kBytes>;
  struct Factors {
    explicit Factors(const Combination& c)
        : pre(static_cast<T>(c.prescale)), post(static_cast<T>(c.mean == 1 ? c.postscale : c.mean)) {}
    T pre, post;
  };
  static FARANDOLE_INLINE Lanes Prescaled(Lanes value, const Factors& f) { return value * f.pre; }
  static FARANDOLE_INLINE Lanes Postscaled(Lanes value, const Factors& f) { return value * f.post; }
};

template <typename Form, typename T>
struct Floats : OwnFactors<T, Form::kBytes> {
  using Element = T;
  using Stored = Vector<T, Form::kBytes>;
  static FARANDOLE_INLINE Stored Wide(Stored value) { return value; }
  static FARANDOLE_INLINE Stored Narrow(Stored value) { return (Stored)OneNan(value, (typename Floats::Bits)value); }
};

template <typename T>
struct ThreeFactors {
  explicit ThreeFactors(const Combination& c)
      : pre(static_cast<T>(c.prescale)), post(static_cast<T>(c.postscale)), mean(c.mean) {}
  T pre, post;
  double mean;
};

// Both a mean and a postscale.
template <typename Form>
struct SteppedDoubles : Floats<Form, double> {
  using Lanes = Vector<double, Form::kBytes>;
  using Factors = ThreeFactors<double>;
  static FARANDOLE_INLINE Lanes Prescaled(Lanes value, const Factors& f) { return value * f.pre; }
  static FARANDOLE_INLINE Lanes Postscaled(Lanes value, const Factors& f) { return value * f.mean * f.post; }
};

// float32 with any factors: the product with the mean in double, rounded once.
template <typename Form>
struct SteppedFloats : Arithmetic<float, Form::kBytes / 2> {
  using Element = float;
  using Lanes = Vector<float, Form::kBytes / 2>;
  using Stored = Lanes;
  using Factors = ThreeFactors<float>;
  static FARANDOLE_INLINE Stored Wide(Stored value) { return value; }
  static FARANDOLE_INLINE Stored Narrow(Stored value) {
    return (Stored)OneNan(value, (typename SteppedFloats::Bits)value);
  }
  static FARANDOLE_INLINE Lanes Prescaled(Lanes value, const Factors& f) { return value * f.pre; }
  static FARANDOLE_INLINE Lanes Postscaled(Lanes value, const Factors& f) {
    Lanes average =
        __builtin_convertvector(__builtin_convertvector(value, Vector<double, Form::kBytes>) * f.mean, Lanes);
    Form::Pin(&average);
    return average * f.post;
  }
};

// 16-bit floats have no factors but a mean here; with others they are Stepped.
template <typename Form>
struct Float16s : OwnFactors<float, Form::kBytes> {
  using Element = uint16_t;
  using Stored = Vector<uint16_t, Form::kBytes / 2>;
  static FARANDOLE_INLINE Vector<float, Form::kBytes> Widened(Stored value) { return Form::FromFloat16(value); }
  static FARANDOLE_INLINE Stored Halved(Vector<float, Form::kBytes> value) { return Form::ToFloat16(value); }
  static FARANDOLE_INLINE Vector<float, Form::kBytes> Wide(Stored value) { return Widened(value); }
  static FARANDOLE_INLINE Stored Narrow(Vector<float, Form::kBytes> value) {
    return Halved((Vector<float, Form::kBytes>)OneNan(value, (typename Float16s::Bits)value));
  }
  // To the nearest number of the own type.
  static FARANDOLE_INLINE Vector<float, Form::kBytes> Nearest(Vector<float, Form::kBytes> value) {
    return Widened(Halved(value));
  }
  static FARANDOLE_INLINE Vector<float, Form::kBytes> Times(Vector<float, Form::kBytes> value, float factor) {
    return value * factor;
  }
};

// The arithmetic of half.h. The numbers at even and at odd places of a vector are lanes of their own, so that nothing
// has to be moved between lanes.
template <typename Form>
struct Bfloat16s {
  using Element = uint16_t;
  using Own = OwnFactors<float, Form::kBytes>;
  using Factors = typename Own::Factors;
  using Single = Vector<float, Form::kBytes>;
  using Bits = Vector<uint32_t, Form::kBytes>;
  using Stored = Bits;
  struct Lanes {
    Single low, high;
  };
  static constexpr uint32_t kHigh = 0xffff0000;

  static FARANDOLE_INLINE Lanes Wide(Stored value) { return {(Single)(value << 16), (Single)(value & kHigh)}; }
  static FARANDOLE_INLINE Bits Rounded(Single value) {
    const Bits bits = (Bits)value;
    const Bits rounded = bits + 0x7fff + ((bits >> 16) & 1);
    return OneNan(value, rounded);
  }
  static FARANDOLE_INLINE Single Widened(Vector<uint16_t, Form::kBytes / 2> value) {
    return (Single)(__builtin_convertvector(value, Bits) << 16);
  }
  static FARANDOLE_INLINE Vector<uint16_t, Form::kBytes / 2> Halved(Single value) {
    return __builtin_convertvector(Rounded(value) >> 16, Vector<uint16_t, Form::kBytes / 2>);
  }
  static FARANDOLE_INLINE Stored Narrow(Lanes value) {
    return (Rounded(value.high) & kHigh) | (Rounded(value.low) >> 16);
  }
  static FARANDOLE_INLINE Lanes Nearest(Lanes v) {
    return {(Single)(Rounded(v.low) & kHigh), (Single)(Rounded(v.high) & kHigh)};
  }
  static FARANDOLE_INLINE Lanes Times(Lanes v, float factor) { return {v.low * factor, v.high * factor}; }
  static FARANDOLE_INLINE Lanes Prescaled(Lanes v, const Factors& f) { return Times(v, f.pre); }
  static FARANDOLE_INLINE Lanes Postscaled(Lanes v, const Factors& f) { return Times(v, f.post); }
  static FARANDOLE_INLINE Lanes Add(Lanes a, Lanes b) { return {a.low + b.low, a.high + b.high}; }
  static FARANDOLE_INLINE Lanes Multiply(Lanes a, Lanes b) { return {a.low * b.low, a.high * b.high}; }
  static FARANDOLE_INLINE Lanes Least(Lanes a, Lanes b) {
    return {Own::Least(a.low, b.low), Own::Least(a.high, b.high)};
  }
  static FARANDOLE_INLINE Lanes Greatest(Lanes a, Lanes b) {
    return {Own::Greatest(a.low, b.low), Own::Greatest(a.high, b.high)};
  }
};

// 16-bit floats of kind Half with any factors: what each of them gives is rounded to the own type.
template <typename Half>
struct Stepped : Half {
  using Lanes = decltype(Half::Wide(typename Half::Stored()));
  using Factors = ThreeFactors<float>;
  static FARANDOLE_INLINE Lanes Prescaled(Lanes v, const Factors& f) { return Half::Nearest(Half::Times(v, f.pre)); }
  static FARANDOLE_INLINE Lanes Postscaled(Lanes v, const Factors& f) {
    return Half::Times(Half::Nearest(Half::Times(v, static_cast<float>(f.mean))), f.post);
  }
};

enum class Combining { kAdd, kMultiply, kLeast, kGreatest };

template <Combining kHow, typename L, typename V>
FARANDOLE_INLINE V Combine(V a, V b) {
  if constexpr (kHow == Combining::kAdd) return L::Add(a, b);
  if constexpr (kHow == Combining::kMultiply) return L::Multiply(a, b);
  if constexpr (kHow == Combining::kLeast) return L::Least(a, b);
  if constexpr (kHow == Combining::kGreatest) return L::Greatest(a, b);
}

}  // namespace reduce_loops
}  // namespace farandole::worker::arithmetic

#endif  // FARANDOLE_WORKER_ARITHMETIC_REDUCE_LANES_H_
