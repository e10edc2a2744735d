#include "worker/reduce.h"

#include <cstdlib>
#include <limits>
#include <type_traits>

#include "worker/half.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace farandole {
namespace {

// One element at any address; tells the compiler that it may alias tensors of any type.
template <typename T>
struct __attribute__((packed, may_alias)) Cell {
  T value;
};

template <typename T>
struct Integer {
  using Stored = T;
  // Unsigned, and wide enough not to be promoted to a signed type: wraps around.
  using Wide = std::conditional_t<sizeof(T) < 4, uint32_t, std::make_unsigned_t<T>>;
  static T Add(T a, T b) { return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b)); }
  static T Multiply(T a, T b) { return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b)); }
  static T Least(T a, T b) { return a < b ? a : b; }
  static T Greatest(T a, T b) { return a > b ? a : b; }
  static T Scale(T value, double factor) {
    // The largest double that the type holds; of 64-bit types the next one up is 2^63 or 2^64.
    constexpr double kLow = static_cast<double>(std::numeric_limits<T>::min());
    constexpr double kBeyond = 2.0 * static_cast<double>(static_cast<T>(T{1} << (std::numeric_limits<T>::digits - 1)));
    const double product = static_cast<double>(value) * factor;
    if (product >= kBeyond) return std::numeric_limits<T>::max();
    return product > kLow ? static_cast<T>(product) : std::numeric_limits<T>::min();
  }
};

// Order of floating-point numbers by their bits: as signed integers of the same size, with the magnitudes of negative
// ones turned round. Total, so that the order of the operands does not matter.
template <typename Signed, Signed kInfinity, Signed kNan>
struct BitOrder {
  static Signed Key(Signed bits) { return bits ^ (static_cast<Signed>(bits >> (8 * sizeof(Signed) - 1)) & kMagnitude); }
  static bool IsNan(Signed bits) { return (bits & kMagnitude) > kInfinity; }
  static Signed Least(Signed a, Signed b) {
    const Signed least = Key(a) < Key(b) ? a : b;
    return static_cast<int>(IsNan(a)) | static_cast<int>(IsNan(b)) ? kNan : least;
  }
  static Signed Greatest(Signed a, Signed b) {
    const Signed greatest = Key(a) > Key(b) ? a : b;
    return static_cast<int>(IsNan(a)) | static_cast<int>(IsNan(b)) ? kNan : greatest;
  }

 private:
  static constexpr Signed kMagnitude = std::numeric_limits<Signed>::max();
};

template <typename Order, typename Signed>
struct Ordered {
  using Stored = Signed;
  static Signed Least(Signed a, Signed b) { return Order::Least(a, b); }
  static Signed Greatest(Signed a, Signed b) { return Order::Greatest(a, b); }
};
using OrderedFloat16 = Ordered<BitOrder<int16_t, 0x7c00, 0x7e00>, int16_t>;
using OrderedBfloat16 = Ordered<BitOrder<int16_t, 0x7f80, 0x7fc0>, int16_t>;
using OrderedFloat32 = Ordered<BitOrder<int32_t, 0x7f800000, 0x7fc00000>, int32_t>;
using OrderedFloat64 = Ordered<BitOrder<int64_t, 0x7ff0000000000000, 0x7ff8000000000000>, int64_t>;

template <typename T>
struct Floating {
  using Stored = T;
  static T Add(T a, T b) { return a + b; }
  static T Multiply(T a, T b) { return a * b; }
  static T Scale(T value, double factor) { return static_cast<T>(static_cast<double>(value) * factor); }
};

struct Float16 {
  using Stored = uint16_t;
  static float Widen(uint16_t value) { return FloatFromFloat16(value); }
  static uint16_t Narrow(float value) { return Float16FromFloat(value); }
  static uint16_t Add(uint16_t a, uint16_t b) { return Float16FromFloat(FloatFromFloat16(a) + FloatFromFloat16(b)); }
  static uint16_t Multiply(uint16_t a, uint16_t b) {
    return Float16FromFloat(FloatFromFloat16(a) * FloatFromFloat16(b));
  }
  static uint16_t Scale(uint16_t value, double factor) {
    return Float16FromFloat(FloatFromFloat16(value) * static_cast<float>(factor));
  }
};

struct Bfloat16 {
  using Stored = uint16_t;
  static float Widen(uint16_t value) { return FloatFromBfloat16(value); }
  static uint16_t Narrow(float value) { return Bfloat16FromFloat(value); }
  static uint16_t Add(uint16_t a, uint16_t b) { return Bfloat16FromFloat(FloatFromBfloat16(a) + FloatFromBfloat16(b)); }
  static uint16_t Multiply(uint16_t a, uint16_t b) {
    return Bfloat16FromFloat(FloatFromBfloat16(a) * FloatFromBfloat16(b));
  }
  static uint16_t Scale(uint16_t value, double factor) {
    return Bfloat16FromFloat(FloatFromBfloat16(value) * static_cast<float>(factor));
  }
};

// What a loop does with two elements.
template <typename Type>
struct Add {
  using Stored = typename Type::Stored;
  static Stored Of(Stored a, Stored b) { return Type::Add(a, b); }
};
template <typename Type>
struct Multiply {
  using Stored = typename Type::Stored;
  static Stored Of(Stored a, Stored b) { return Type::Multiply(a, b); }
};
template <typename Type>
struct Least {
  using Stored = typename Type::Stored;
  static Stored Of(Stored a, Stored b) { return Type::Least(a, b); }
};
template <typename Type>
struct Greatest {
  using Stored = typename Type::Stored;
  static Stored Of(Stored a, Stored b) { return Type::Greatest(a, b); }
};

// ivdep: operands are the same address or do not overlap, so no iteration depends on another one.
template <typename Op>
__attribute__((always_inline)) inline void CombineLoop(void* out, const void* a, const void* b, int64_t count) {
  using C = Cell<typename Op::Stored>;
  C* o = static_cast<C*>(out);
  const C* x = static_cast<const C*>(a);
  const C* y = static_cast<const C*>(b);
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) o[i].value = Op::Of(x[i].value, y[i].value);
}

template <typename Type>
__attribute__((always_inline)) inline void ScaleLoop(void* out, const void* in, int64_t count, double factor) {
  using C = Cell<typename Type::Stored>;
  C* o = static_cast<C*>(out);
  const C* x = static_cast<const C*>(in);
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) o[i].value = Type::Scale(x[i].value, factor);
}

template <typename Type>
inline __attribute__((always_inline)) void WidenLoop(float* out, const void* in, int64_t count) {
  auto* x = static_cast<const Cell<uint16_t>*>(in);
  for (int64_t i = 0; i < count; ++i) out[i] = Type::Widen(x[i].value);
}

template <typename Type>
inline __attribute__((always_inline)) void NarrowLoop(void* out, const float* in, int64_t count) {
  auto* o = static_cast<Cell<uint16_t>*>(out);
  for (int64_t i = 0; i < count; ++i) o[i].value = Type::Narrow(in[i]);
}

struct BaselineForm {
  template <typename Op>
  static void Combine(void* out, const void* a, const void* b, int64_t count) {
    CombineLoop<Op>(out, a, b, count);
  }
  template <typename Type>
  static void Scale(void* out, const void* in, int64_t count, double factor) {
    ScaleLoop<Type>(out, in, count, factor);
  }
  template <typename Type>
  static void Widen(float* out, const void* in, int64_t count) {
    WidenLoop<Type>(out, in, count);
  }
  template <typename Type>
  static void Narrow(void* out, const float* in, int64_t count) {
    NarrowLoop<Type>(out, in, count);
  }
};

// In the order of DataType. The last four are how the kinds of floating-point numbers are taken.
template <typename Form, template <typename> class Op, typename F16, typename F32, typename F64, typename Bf16>
constexpr ReduceKernels::Table MakeTable() {
  return {{&Form::template Combine<Op<Integer<uint8_t>>>, &Form::template Combine<Op<Integer<int8_t>>>,
           &Form::template Combine<Op<Integer<uint16_t>>>, &Form::template Combine<Op<Integer<int16_t>>>,
           &Form::template Combine<Op<Integer<int32_t>>>, &Form::template Combine<Op<Integer<int64_t>>>,
           &Form::template Combine<Op<F16>>, &Form::template Combine<Op<F32>>, &Form::template Combine<Op<F64>>,
           nullptr, &Form::template Combine<Op<Bf16>>}};
}

template <typename Form>
constexpr ReduceKernels MakeKernels(const char* name) {
  return ReduceKernels{name,
                       MakeTable<Form, Add, Float16, Floating<float>, Floating<double>, Bfloat16>(),
                       MakeTable<Form, Least, OrderedFloat16, OrderedFloat32, OrderedFloat64, OrderedBfloat16>(),
                       MakeTable<Form, Greatest, OrderedFloat16, OrderedFloat32, OrderedFloat64, OrderedBfloat16>(),
                       MakeTable<Form, Multiply, Float16, Floating<float>, Floating<double>, Bfloat16>(),
                       {&Form::template Scale<Integer<uint8_t>>, &Form::template Scale<Integer<int8_t>>,
                        &Form::template Scale<Integer<uint16_t>>, &Form::template Scale<Integer<int16_t>>,
                        &Form::template Scale<Integer<int32_t>>, &Form::template Scale<Integer<int64_t>>,
                        &Form::template Scale<Float16>, &Form::template Scale<Floating<float>>,
                        &Form::template Scale<Floating<double>>, nullptr, &Form::template Scale<Bfloat16>},
                       {&Form::template Widen<Float16>, &Form::template Narrow<Float16>},
                       {&Form::template Widen<Bfloat16>, &Form::template Narrow<Bfloat16>}};
}

constexpr ReduceKernels kBaseline = MakeKernels<BaselineForm>("baseline");

#if defined(__x86_64__)

__attribute__((target("avx2,f16c"))) inline __m256 LoadFloat16(const void* from, int64_t at) {
  const auto* p = static_cast<const uint16_t*>(from) + at;
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

__attribute__((target("avx2,f16c"))) inline void StoreFloat16(void* to, int64_t at, __m256 value) {
  auto* p = static_cast<uint16_t*>(to) + at;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
}

// The compiler does not find the conversion instructions by itself: these take the whole vectors of an array of float16
// and answer how many elements that were.
template <typename Op>
struct Float16Vectors {
  static int64_t Run(void*, const void*, const void*, int64_t) { return 0; }
};
template <>
struct Float16Vectors<Add<Float16>> {
  __attribute__((target("avx2,f16c"))) static int64_t Run(void* out, const void* a, const void* b, int64_t count) {
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) StoreFloat16(out, i, _mm256_add_ps(LoadFloat16(a, i), LoadFloat16(b, i)));
    return i;
  }
};
template <>
struct Float16Vectors<Multiply<Float16>> {
  __attribute__((target("avx2,f16c"))) static int64_t Run(void* out, const void* a, const void* b, int64_t count) {
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) StoreFloat16(out, i, _mm256_mul_ps(LoadFloat16(a, i), LoadFloat16(b, i)));
    return i;
  }
};

struct Avx2Form {
  template <typename Op>
  __attribute__((target("avx2,f16c"))) static void Combine(void* out, const void* a, const void* b, int64_t count) {
    using C = Cell<typename Op::Stored>;
    const int64_t done = Float16Vectors<Op>::Run(out, a, b, count);
    CombineLoop<Op>(static_cast<C*>(out) + done, static_cast<const C*>(a) + done, static_cast<const C*>(b) + done,
                    count - done);
  }
  template <typename Type>
  __attribute__((target("avx2,f16c"))) static void Scale(void* out, const void* in, int64_t count, double factor) {
    ScaleLoop<Type>(out, in, count, factor);
  }
  template <typename Type>
  __attribute__((target("avx2,f16c"))) static void Widen(float* out, const void* in, int64_t count) {
    WidenLoop<Type>(out, in, count);
  }
  template <typename Type>
  __attribute__((target("avx2,f16c"))) static void Narrow(void* out, const float* in, int64_t count) {
    NarrowLoop<Type>(out, in, count);
  }
};

template <>
__attribute__((target("avx2,f16c"))) void Avx2Form::Scale<Float16>(void* out, const void* in, int64_t count,
                                                                   double factor) {
  const __m256 f = _mm256_set1_ps(static_cast<float>(factor));
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) StoreFloat16(out, i, _mm256_mul_ps(LoadFloat16(in, i), f));
  ScaleLoop<Float16>(static_cast<uint16_t*>(out) + i, static_cast<const uint16_t*>(in) + i, count - i, factor);
}

template <>
__attribute__((target("avx2,f16c"))) void Avx2Form::Widen<Float16>(float* out, const void* in, int64_t count) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) _mm256_storeu_ps(out + i, LoadFloat16(in, i));
  WidenLoop<Float16>(out + i, static_cast<const uint16_t*>(in) + i, count - i);
}

template <>
__attribute__((target("avx2,f16c"))) void Avx2Form::Narrow<Float16>(void* out, const float* in, int64_t count) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) StoreFloat16(out, i, _mm256_loadu_ps(in + i));
  NarrowLoop<Float16>(static_cast<uint16_t*>(out) + i, in + i, count - i);
}

constexpr ReduceKernels kAvx2 = MakeKernels<Avx2Form>("avx2");

const ReduceKernels& Choose() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c") ? kAvx2 : kBaseline;
}

#else

const ReduceKernels& Choose() { return kBaseline; }

#endif

int IndexOf(DataType dtype) {
  const int index = static_cast<int>(dtype);
  if (index < 0 || index >= ReduceKernels::kTypes || kBaseline.scale[index] == nullptr) std::abort();
  return index;
}

}  // namespace

const ReduceKernels& ReduceKernels::Baseline() { return kBaseline; }

const ReduceKernels& ReduceKernels::Best() {
  static const ReduceKernels& best = Choose();
  return best;
}

const ReduceKernels::Table* ReduceKernels::Find(ReduceOp op) const {
  switch (op) {
    case ReduceOp::kSum:
      return &sum;
    case ReduceOp::kMin:
      return &min;
    case ReduceOp::kMax:
      return &max;
    case ReduceOp::kProduct:
      return &product;
    default:
      return nullptr;
  }
}

bool CanReduce(const Reduction& how) {
  const int index = static_cast<int>(how.dtype);
  const ReduceKernels::Table* const table = kBaseline.Find(how.op);
  return table != nullptr && index >= 0 && index < ReduceKernels::kTypes && table->of[index] != nullptr;
}

void Reduce(const Reduction& how, void* accumulate, const void* operand, int64_t count) {
  Reduce2(how, accumulate, accumulate, operand, count);
}

void Reduce2(const Reduction& how, void* out, const void* a, const void* b, int64_t count) {
  if (!CanReduce(how)) std::abort();
  ReduceKernels::Best().Find(how.op)->of[IndexOf(how.dtype)](out, a, b, count);
}

void ScaleCopy(DataType dtype, void* out, const void* in, int64_t count, double factor) {
  ReduceKernels::Best().scale[IndexOf(dtype)](out, in, count, factor);
}

void ScaleInPlace(DataType dtype, void* data, int64_t count, double factor) {
  ScaleCopy(dtype, data, data, count, factor);
}

void Widen(DataType dtype, float* out, const void* in, int64_t count) {
  if (!IsHalf(dtype)) std::abort();
  const ReduceKernels& best = ReduceKernels::Best();
  (dtype == DataType::kFloat16 ? best.float16 : best.bfloat16).widen(out, in, count);
}

void Narrow(DataType dtype, void* out, const float* in, int64_t count) {
  if (!IsHalf(dtype)) std::abort();
  const ReduceKernels& best = ReduceKernels::Best();
  (dtype == DataType::kFloat16 ? best.float16 : best.bfloat16).narrow(out, in, count);
}

}  // namespace farandole
