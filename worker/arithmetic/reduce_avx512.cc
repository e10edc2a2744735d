#include "worker/arithmetic/reduce_avx512.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl")

#include "worker/arithmetic/reduce_loops.h"

namespace farandole::worker::arithmetic {
namespace {

using reduce_loops::Vector;

struct Avx512Form {
  static constexpr int kBytes = 64;
  using Halves = Vector<uint16_t, 32>;
  using Floats = Vector<float, 64>;

  static FARANDOLE_INLINE Floats FromFloat16(Halves halves) {
    return (Floats)_mm512_maskz_cvtph_ps(0xffff, (__m256i)halves);
  }
  static FARANDOLE_INLINE Halves ToFloat16(Floats value) {
    return (Halves)_mm512_maskz_cvtps_ph(0xffff, (__m512)value, _MM_FROUND_TO_NEAREST_INT);
  }
  static FARANDOLE_INLINE void Stream(char* to, Vector<uint8_t, 64> value) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to), (__m512i)value);
  }
  static FARANDOLE_INLINE void Stream(char* to, Vector<uint8_t, 32> value) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to), (__m256i)value);
  }
  static FARANDOLE_INLINE void Fence() { _mm_sfence(); }
  template <typename V>
  static FARANDOLE_INLINE V LoadPart(const char* from, int64_t bytes) {
    const uint64_t mask = ~uint64_t{0} >> (64 - bytes);
    if constexpr (sizeof(V) == 64) return (V)_mm512_maskz_loadu_epi8(mask, from);
    if constexpr (sizeof(V) == 32) return (V)_mm256_maskz_loadu_epi8(static_cast<__mmask32>(mask), from);
  }
  template <typename V>
  static FARANDOLE_INLINE void StorePart(char* to, V value, int64_t bytes) {
    const uint64_t mask = ~uint64_t{0} >> (64 - bytes);
    if constexpr (sizeof(V) == 64) _mm512_mask_storeu_epi8(to, mask, (__m512i)value);
    if constexpr (sizeof(V) == 32) _mm256_mask_storeu_epi8(to, static_cast<__mmask32>(mask), (__m256i)value);
  }
  template <typename V>
  static FARANDOLE_INLINE void Pin(V* value) {
    asm("" : "+v"(*value));
  }
};

constexpr ReduceKernels kKernels = reduce_loops::MakeKernels<Avx512Form>("avx512");

}  // namespace

const ReduceKernels* Avx512Kernels() {
  __builtin_cpu_init();
  const bool all = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return all ? &kKernels : nullptr;
}

}  // namespace farandole::worker::arithmetic

#else

namespace farandole::worker::arithmetic {

const ReduceKernels* Avx512Kernels() { return nullptr; }

}  // namespace farandole::worker::arithmetic

#endif
