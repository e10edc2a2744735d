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
  static T Add(T a, T b) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b)));
  }
  static T Scale(T value, double factor) {
    // The largest double that the type holds; of 64-bit types the next one up is 2^63 or 2^64.
    constexpr double kLow = static_cast<double>(std::numeric_limits<T>::min());
    constexpr double kBeyond = 2.0 * static_cast<double>(static_cast<T>(T{1} << (std::numeric_limits<T>::digits - 1)));
    const double product = static_cast<double>(value) * factor;
    if (product >= kBeyond) return std::numeric_limits<T>::max();
    return product > kLow ? static_cast<T>(product) : std::numeric_limits<T>::min();
  }
};

template <typename T>
struct Floating {
  using Stored = T;
  static T Add(T a, T b) { return a + b; }
  static T Scale(T value, double factor) { return static_cast<T>(static_cast<double>(value) * factor); }
};

struct Float16 {
  using Stored = uint16_t;
  static uint16_t Add(uint16_t a, uint16_t b) { return Float16FromFloat(FloatFromFloat16(a) + FloatFromFloat16(b)); }
  static uint16_t Scale(uint16_t value, double factor) {
    return Float16FromFloat(FloatFromFloat16(value) * static_cast<float>(factor));
  }
};

struct Bfloat16 {
  using Stored = uint16_t;
  static uint16_t Add(uint16_t a, uint16_t b) { return Bfloat16FromFloat(FloatFromBfloat16(a) + FloatFromBfloat16(b)); }
  static uint16_t Scale(uint16_t value, double factor) {
    return Bfloat16FromFloat(FloatFromBfloat16(value) * static_cast<float>(factor));
  }
};

// ivdep: operands are the same address or do not overlap, so no iteration depends on another one.
template <typename Type>
__attribute__((always_inline)) inline void SumLoop(void* out, const void* a, const void* b, int64_t count) {
  using C = Cell<typename Type::Stored>;
  C* o = static_cast<C*>(out);
  const C* x = static_cast<const C*>(a);
  const C* y = static_cast<const C*>(b);
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) o[i].value = Type::Add(x[i].value, y[i].value);
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
struct BaselineForm {
  static void Sum(void* out, const void* a, const void* b, int64_t count) { SumLoop<Type>(out, a, b, count); }
  static void Scale(void* out, const void* in, int64_t count, double factor) {
    ScaleLoop<Type>(out, in, count, factor);
  }
};

template <template <typename> class Form>
constexpr ReduceKernels MakeKernels(const char* name) {
  return ReduceKernels{
      name,
      {Form<Integer<uint8_t>>::Sum, Form<Integer<int8_t>>::Sum, Form<Integer<uint16_t>>::Sum,
       Form<Integer<int16_t>>::Sum, Form<Integer<int32_t>>::Sum, Form<Integer<int64_t>>::Sum, Form<Float16>::Sum,
       Form<Floating<float>>::Sum, Form<Floating<double>>::Sum, nullptr, Form<Bfloat16>::Sum},
      {Form<Integer<uint8_t>>::Scale, Form<Integer<int8_t>>::Scale, Form<Integer<uint16_t>>::Scale,
       Form<Integer<int16_t>>::Scale, Form<Integer<int32_t>>::Scale, Form<Integer<int64_t>>::Scale,
       Form<Float16>::Scale, Form<Floating<float>>::Scale, Form<Floating<double>>::Scale, nullptr,
       Form<Bfloat16>::Scale}};
}

constexpr ReduceKernels kBaseline = MakeKernels<BaselineForm>("baseline");

#if defined(__x86_64__)

template <typename Type>
struct Avx2Form {
  __attribute__((target("avx2,f16c"))) static void Sum(void* out, const void* a, const void* b, int64_t count) {
    SumLoop<Type>(out, a, b, count);
  }
  __attribute__((target("avx2,f16c"))) static void Scale(void* out, const void* in, int64_t count, double factor) {
    ScaleLoop<Type>(out, in, count, factor);
  }
};

__attribute__((target("avx2,f16c"))) inline __m256 LoadFloat16(const void* from, int64_t at) {
  const auto* p = static_cast<const uint16_t*>(from) + at;
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

__attribute__((target("avx2,f16c"))) inline void StoreFloat16(void* to, int64_t at, __m256 value) {
  auto* p = static_cast<uint16_t*>(to) + at;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
}

// The compiler does not find the conversion instructions by itself.
template <>
struct Avx2Form<Float16> {
  __attribute__((target("avx2,f16c"))) static void Sum(void* out, const void* a, const void* b, int64_t count) {
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) StoreFloat16(out, i, _mm256_add_ps(LoadFloat16(a, i), LoadFloat16(b, i)));
    SumLoop<Float16>(static_cast<uint16_t*>(out) + i, static_cast<const uint16_t*>(a) + i,
                     static_cast<const uint16_t*>(b) + i, count - i);
  }
  __attribute__((target("avx2,f16c"))) static void Scale(void* out, const void* in, int64_t count, double factor) {
    const __m256 f = _mm256_set1_ps(static_cast<float>(factor));
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) StoreFloat16(out, i, _mm256_mul_ps(LoadFloat16(in, i), f));
    ScaleLoop<Float16>(static_cast<uint16_t*>(out) + i, static_cast<const uint16_t*>(in) + i, count - i, factor);
  }
};

constexpr ReduceKernels kAvx2 = MakeKernels<Avx2Form>("avx2");

const ReduceKernels& Choose() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c") ? kAvx2 : kBaseline;
}

#else

const ReduceKernels& Choose() { return kBaseline; }

#endif

int IndexOf(DataType dtype) {
  if (!CanReduce(dtype)) std::abort();
  return static_cast<int>(dtype);
}

}  // namespace

const ReduceKernels& ReduceKernels::Baseline() { return kBaseline; }

const ReduceKernels& ReduceKernels::Best() {
  static const ReduceKernels& best = Choose();
  return best;
}

bool CanReduce(DataType dtype) {
  const int index = static_cast<int>(dtype);
  return index >= 0 && index < ReduceKernels::kTypes && kBaseline.sum[index] != nullptr;
}

void ReduceSum(DataType dtype, void* accumulate, const void* addend, int64_t count) {
  ReduceSum2(dtype, accumulate, accumulate, addend, count);
}

void ReduceSum2(DataType dtype, void* out, const void* a, const void* b, int64_t count) {
  ReduceKernels::Best().sum[IndexOf(dtype)](out, a, b, count);
}

void ScaleCopy(DataType dtype, void* out, const void* in, int64_t count, double factor) {
  ReduceKernels::Best().scale[IndexOf(dtype)](out, in, count, factor);
}

void ScaleInPlace(DataType dtype, void* data, int64_t count, double factor) {
  ScaleCopy(dtype, data, data, count, factor);
}

}  // namespace farandole
