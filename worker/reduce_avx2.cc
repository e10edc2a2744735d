#include "worker/reduce_avx2.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#pragma GCC target("avx2,f16c")

#include "worker/reduce_loops.h"

namespace farandole {
namespace {

using reduce_loops::Vector;

struct Avx2Form {
  static constexpr int kBytes = 32;
  using Halves = Vector<uint16_t, 16>;
  using Floats = Vector<float, 32>;

  static FARANDOLE_INLINE Floats FromFloat16(Halves halves) { return (Floats)_mm256_cvtph_ps((__m128i)halves); }
  static FARANDOLE_INLINE Halves ToFloat16(Floats value) {
    return (Halves)_mm256_cvtps_ph((__m256)value, _MM_FROUND_TO_NEAREST_INT);
  }
  static FARANDOLE_INLINE void Stream(char* to, Vector<uint8_t, 32> value) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), (__m256i)value);
  }
  static FARANDOLE_INLINE void Stream(char* to, Vector<uint8_t, 16> value) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to), (__m128i)value);
  }
  static FARANDOLE_INLINE void Fence() { _mm_sfence(); }
  template <typename V>
  static FARANDOLE_INLINE void Pin(V* value) {
    asm("" : "+x"(*value));
  }
};

constexpr ReduceKernels kKernels = reduce_loops::MakeKernels<Avx2Form>("avx2");

}  // namespace

const ReduceKernels* Avx2Kernels() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c") ? &kKernels : nullptr;
}

}  // namespace farandole

#else

namespace farandole {

const ReduceKernels* Avx2Kernels() { return nullptr; }

}  // namespace farandole

#endif
