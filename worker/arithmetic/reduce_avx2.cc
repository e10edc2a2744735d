#include "worker/arithmetic/reduce_avx2.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#pragma GCC target("avx2,f16c")

#include "worker/arithmetic/reduce_loops.h"

namespace farandole::worker::arithmetic {
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
  // The first bytes / 4 of eight words.
  static FARANDOLE_INLINE __m256i Words(int64_t bytes) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(bytes / 4)),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  template <typename V>
  static FARANDOLE_INLINE V LoadPart(const char* from, int64_t bytes) {
    if (bytes % 4 != 0) return reduce_loops::LoadPartOf<V>(from, bytes);
    const auto* const words = reinterpret_cast<const int*>(from);
    if constexpr (sizeof(V) == 32) return (V)_mm256_maskload_epi32(words, Words(bytes));
    if constexpr (sizeof(V) == 16) return (V)_mm_maskload_epi32(words, _mm256_castsi256_si128(Words(bytes)));
  }
  template <typename V>
  static FARANDOLE_INLINE void StorePart(char* to, V value, int64_t bytes) {
    if (bytes % 4 != 0) return reduce_loops::StorePartOf(to, value, bytes);
    auto* const words = reinterpret_cast<int*>(to);
    if constexpr (sizeof(V) == 32) _mm256_maskstore_epi32(words, Words(bytes), (__m256i)value);
    if constexpr (sizeof(V) == 16) _mm_maskstore_epi32(words, _mm256_castsi256_si128(Words(bytes)), (__m128i)value);
  }
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

}  // namespace farandole::worker::arithmetic

#else

namespace farandole::worker::arithmetic {

const ReduceKernels* Avx2Kernels() { return nullptr; }

}  // namespace farandole::worker::arithmetic

#endif
