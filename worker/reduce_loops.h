#ifndef FARANDOLE_WORKER_REDUCE_LOOPS_H_
#define FARANDOLE_WORKER_REDUCE_LOOPS_H_

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "worker/reduce_kernels.h"

// The passes of reduce_kernels.h, written once in vectors of the compiler and compiled for an instruction set by each
// file that includes this: after its #pragma GCC target, with a Form of an unnamed namespace, so that none of these
// functions can stand in for those of another file. Form has
//   kBytes                        of a vector
//   FromFloat16, ToFloat16        Vector<uint16_t, kBytes / 2> to and from Vector<float, kBytes>
//   Stream(to, Vector<uint8_t>)   a store past the caches, to an aligned address, of kBytes and of kBytes / 2
//   Fence()                       after such stores, before others are told
//   LoadPart<V>(from, bytes), StorePart(to, V, bytes)   of less than a vector; touches no other byte
//   Pin(vector*)                  a rounding before it is not to be optimised away
namespace farandole {
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
  static constexpr Bit kNan = sizeof(T) == 4 ? Bit{0x7fc00000} : static_cast<Bit>(0x7ff8000000000000);

  static FARANDOLE_INLINE Lanes Add(Lanes a, Lanes b) { return a + b; }
  static FARANDOLE_INLINE Lanes Multiply(Lanes a, Lanes b) { return a * b; }
  static FARANDOLE_INLINE Bits Key(Bits bits) { return bits ^ ((bits >> (8 * sizeof(T) - 1)) & kMagnitude); }
  static FARANDOLE_INLINE Lanes NanIfEither(Bits a, Bits b, Bits otherwise) {
    const Bits nan = ((a & kMagnitude) > kInfinity) | ((b & kMagnitude) > kInfinity);
    return (Lanes)(nan ? Bits{} + kNan : otherwise);
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

// Factors of the lanes' own type.
template <typename T, int kBytes>
struct OwnFactors : Arithmetic<T, kBytes> {
  using Lanes = Vector<T, kBytes>;
  struct Factors {
    explicit Factors(const Combination& c) : pre(static_cast<T>(c.prescale)), post(static_cast<T>(c.postscale)) {}
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
  static FARANDOLE_INLINE Stored Narrow(Stored value) { return value; }
};

// float32 with factors that are no float32: products in double, rounded once.
template <typename Form>
struct PreciseFloats : Arithmetic<float, Form::kBytes / 2> {
  using Element = float;
  using Lanes = Vector<float, Form::kBytes / 2>;
  using Stored = Lanes;
  struct Factors {
    explicit Factors(const Combination& c) : pre(c.prescale), post(c.postscale) {}
    double pre, post;
  };
  static FARANDOLE_INLINE Lanes Scaled(Lanes value, double factor) {
    Lanes product =
        __builtin_convertvector(__builtin_convertvector(value, Vector<double, Form::kBytes>) * factor, Lanes);
    Form::Pin(&product);
    return product;
  }
  static FARANDOLE_INLINE Stored Wide(Stored value) { return value; }
  static FARANDOLE_INLINE Stored Narrow(Stored value) { return value; }
  static FARANDOLE_INLINE Lanes Prescaled(Lanes value, const Factors& f) { return Scaled(value, f.pre); }
  static FARANDOLE_INLINE Lanes Postscaled(Lanes value, const Factors& f) { return Scaled(value, f.post); }
};

template <typename Form>
struct Float16s : OwnFactors<float, Form::kBytes> {
  using Element = uint16_t;
  using Stored = Vector<uint16_t, Form::kBytes / 2>;
  static FARANDOLE_INLINE Vector<float, Form::kBytes> Widened(Stored value) { return Form::FromFloat16(value); }
  static FARANDOLE_INLINE Stored Halved(Vector<float, Form::kBytes> value) { return Form::ToFloat16(value); }
  static FARANDOLE_INLINE Vector<float, Form::kBytes> Wide(Stored value) { return Widened(value); }
  static FARANDOLE_INLINE Stored Narrow(Vector<float, Form::kBytes> value) { return Halved(value); }
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
    return value != value ? bits | 0x400000 : rounded;
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
  static FARANDOLE_INLINE Lanes Prescaled(Lanes v, const Factors& f) { return {v.low * f.pre, v.high * f.pre}; }
  static FARANDOLE_INLINE Lanes Postscaled(Lanes v, const Factors& f) { return {v.low * f.post, v.high * f.post}; }
  static FARANDOLE_INLINE Lanes Add(Lanes a, Lanes b) { return {a.low + b.low, a.high + b.high}; }
  static FARANDOLE_INLINE Lanes Multiply(Lanes a, Lanes b) { return {a.low * b.low, a.high * b.high}; }
  static FARANDOLE_INLINE Lanes Least(Lanes a, Lanes b) {
    return {Own::Least(a.low, b.low), Own::Least(a.high, b.high)};
  }
  static FARANDOLE_INLINE Lanes Greatest(Lanes a, Lanes b) {
    return {Own::Greatest(a.low, b.low), Own::Greatest(a.high, b.high)};
  }
};

template <typename L>
struct Add {
  template <typename V>
  static FARANDOLE_INLINE V Of(V a, V b) {
    return L::Add(a, b);
  }
};
template <typename L>
struct Multiply {
  template <typename V>
  static FARANDOLE_INLINE V Of(V a, V b) {
    return L::Multiply(a, b);
  }
};
template <typename L>
struct Least {
  template <typename V>
  static FARANDOLE_INLINE V Of(V a, V b) {
    return L::Least(a, b);
  }
};
template <typename L>
struct Greatest {
  template <typename V>
  static FARANDOLE_INLINE V Of(V a, V b) {
    return L::Greatest(a, b);
  }
};

// The pass over lanes of kind L with operation Op.
template <typename Form, typename L, typename Op>
class Pass {
 public:
  static void Run(const Combination& c) {
    const Pass pass(c);
    const int64_t bytes = c.count * static_cast<int64_t>(sizeof(typename L::Element));
    int64_t at = 0;
    const bool stream = c.stream && pass.Align(bytes, &at);
    if (c.operand_count > kOperandsAtOnce) {
      at = pass.Deep(at, bytes);
    } else if (kOften && c.operand_count == 2 && c.result_count == 2) {
      at = pass.template Whole<2, 2>(at, bytes, false);
    } else if (kOften && c.operand_count == 2 && c.result_count == 1) {
      at = pass.template Whole<2, 1>(at, bytes, stream);
    } else {
      at = pass.template Whole<0, 0>(at, bytes, stream);
    }
    if (at < bytes) pass.Part(at, bytes - at);
    if (stream) Form::Fence();
  }

 private:
  using Stored = typename L::Stored;
  using Lanes = decltype(L::Wide(Stored()));
  static constexpr int64_t kStep = sizeof(Stored);
  // Sums of two operands have loops of their own.
  static constexpr bool kOften = std::is_same_v<Op, Add<L>>;
  // Streams of memory that are followed side by side; beyond them sums of a piece wait in the first-level cache.
  static constexpr int kOperandsAtOnce = 8;
  static constexpr int kPieceSteps = 8192 / sizeof(Lanes);

  explicit Pass(const Combination& c) : c_(c), factors_(c) {}

  FARANDOLE_INLINE Lanes Operand(const char* from) const {
    return L::Prescaled(L::Wide(LoadVector<Stored>(from)), factors_);
  }

  static FARANDOLE_INLINE void Store(char* to, Stored value, bool stream = false) {
    if (stream) {
      Form::Stream(to, (Vector<uint8_t, sizeof(Stored)>)value);
    } else {
      __builtin_memcpy(to, &value, sizeof value);
    }
  }

  // Takes what lies before the first place at which all results are aligned; false: there is none, nothing was done.
  bool Align(int64_t bytes, int64_t* at) const {
    const int64_t head = -reinterpret_cast<intptr_t>(c_.results[0]) & (kStep - 1);
    if (head >= bytes || head % static_cast<int64_t>(sizeof(typename L::Element)) != 0) return false;
    for (int i = 1; i < c_.result_count; ++i) {
      if ((reinterpret_cast<intptr_t>(c_.results[i]) + head) % kStep != 0) return false;
    }
    if (head > 0) Part(0, head);
    *at = head;
    return true;
  }

  // From `at` on as many vectors as lie before `end`; where it stopped. 0 operands or results: as many as there are.
  template <int kOperands, int kResults>
  FARANDOLE_INLINE int64_t Whole(int64_t at, int64_t end, bool stream) const {
    const char* const first = c_.operands[0];
    const char* const second = kOperands == 2 ? c_.operands[1] : nullptr;
    char* const result = c_.results[0];
    char* const other = kResults == 2 ? c_.results[1] : nullptr;
    const typename L::Factors factors = factors_;
    for (; at + kStep <= end; at += kStep) {
      Lanes value = L::Prescaled(L::Wide(LoadVector<Stored>(first + at)), factors);
      if constexpr (kOperands == 2) {
        value = Op::Of(value, L::Prescaled(L::Wide(LoadVector<Stored>(second + at)), factors));
      } else {
        for (int i = 1; i < c_.operand_count; ++i) value = Op::Of(value, Operand(c_.operands[i] + at));
      }
      const Stored stored = L::Narrow(L::Postscaled(value, factors));
      Store(result + at, stored, stream);
      if constexpr (kResults == 2) {
        Store(other + at, stored, stream);
      } else if constexpr (kResults == 0) {
        for (int i = 1; i < c_.result_count; ++i) Store(c_.results[i] + at, stored, stream);
      }
    }
    return at;
  }

  // The same for many operands, piece by piece.
  int64_t Deep(int64_t at, int64_t end) const {
    Lanes sums[kPieceSteps];
    while (at + kStep <= end) {
      const int64_t left = (end - at) / kStep;
      const int steps = left < kPieceSteps ? static_cast<int>(left) : kPieceSteps;
      for (int s = 0; s < steps; ++s) sums[s] = Operand(c_.operands[0] + at + s * kStep);
      for (int i = 1; i < c_.operand_count; ++i) {
        const char* const operand = c_.operands[i] + at;
        for (int s = 0; s < steps; ++s) sums[s] = Op::Of(sums[s], Operand(operand + s * kStep));
      }
      char* const result = c_.results[0] + at;
      for (int s = 0; s < steps; ++s) Store(result + s * kStep, L::Narrow(L::Postscaled(sums[s], factors_)));
      for (int i = 1; i < c_.result_count; ++i) std::memcpy(c_.results[i] + at, result, steps * kStep);
      at += steps * kStep;
    }
    return at;
  }

  // `bytes` of less than a vector.
  void Part(int64_t at, int64_t bytes) const {
    const auto operand = [&](int i) {
      const Stored value = Form::template LoadPart<Stored>(c_.operands[i] + at, bytes);
      return L::Prescaled(L::Wide(value), factors_);
    };
    Lanes value = operand(0);
    for (int i = 1; i < c_.operand_count; ++i) value = Op::Of(value, operand(i));
    const Stored stored = L::Narrow(L::Postscaled(value, factors_));
    for (int i = 0; i < c_.result_count; ++i) Form::StorePart(c_.results[i] + at, stored, bytes);
  }

  const Combination& c_;
  const typename L::Factors factors_;
};

template <typename Form, typename L>
struct ToFloat32 {
  using In = Vector<uint16_t, Form::kBytes / 2>;
  static FARANDOLE_INLINE Vector<float, Form::kBytes> Of(In value) { return L::Widened(value); }
};
template <typename Form, typename L>
struct ToHalf {
  using In = Vector<float, Form::kBytes>;
  static FARANDOLE_INLINE Vector<uint16_t, Form::kBytes / 2> Of(In value) { return L::Halved(value); }
};

template <typename To, typename Out, typename In>
void Convert(Out* out, const In* in, int64_t count) {
  using Read = typename To::In;
  using Written = decltype(To::Of(Read()));
  constexpr int kLanes = sizeof(Read) == sizeof(Written) * 2 ? sizeof(Read) / 4 : sizeof(Read) / 2;
  const char* from = reinterpret_cast<const char*>(in);
  char* to = reinterpret_cast<char*>(out);
  for (; count >= kLanes; count -= kLanes, from += sizeof(Read), to += sizeof(Written)) {
    const Written value = To::Of(LoadVector<Read>(from));
    __builtin_memcpy(to, &value, sizeof value);
  }
  if (count <= 0) return;
  Read rest = {};
  std::memcpy(&rest, from, count * sizeof(rest[0]));
  const Written value = To::Of(rest);
  std::memcpy(to, &value, count * sizeof(value[0]));
}

template <typename Form, template <typename> class Op>
void RunFloat32(const Combination& c) {
  // Volatile: GCC 12 drops the rounding of several at once when it makes vectors of them.
  const volatile float pre = static_cast<float>(c.prescale), post = static_cast<float>(c.postscale);
  if (pre == c.prescale && post == c.postscale) return Pass<Form, Floats<Form, float>, Op<Floats<Form, float>>>::Run(c);
  Pass<Form, PreciseFloats<Form>, Op<PreciseFloats<Form>>>::Run(c);
}

template <typename Form, template <typename> class Op, typename L>
constexpr ReduceKernels::Combine RunOf() {
  return &Pass<Form, L, Op<L>>::Run;
}

// In the order of DataType.
template <typename Form, template <typename> class Op>
constexpr ReduceKernels::Table MakeTable() {
  return {{RunOf<Form, Op, Integers<Form, uint8_t>>(), RunOf<Form, Op, Integers<Form, int8_t>>(),
           RunOf<Form, Op, Integers<Form, uint16_t>>(), RunOf<Form, Op, Integers<Form, int16_t>>(),
           RunOf<Form, Op, Integers<Form, int32_t>>(), RunOf<Form, Op, Integers<Form, int64_t>>(),
           RunOf<Form, Op, Float16s<Form>>(), &RunFloat32<Form, Op>, RunOf<Form, Op, Floats<Form, double>>(), nullptr,
           RunOf<Form, Op, Bfloat16s<Form>>()}};
}

template <typename Form>
constexpr ReduceKernels MakeKernels(const char* name) {
  return {name,
          MakeTable<Form, Add>(),
          MakeTable<Form, Least>(),
          MakeTable<Form, Greatest>(),
          MakeTable<Form, Multiply>(),
          {&Convert<ToFloat32<Form, Float16s<Form>>>, &Convert<ToHalf<Form, Float16s<Form>>>},
          {&Convert<ToFloat32<Form, Bfloat16s<Form>>>, &Convert<ToHalf<Form, Bfloat16s<Form>>>}};
}

}  // namespace reduce_loops
}  // namespace farandole

#endif  // FARANDOLE_WORKER_REDUCE_LOOPS_H_
