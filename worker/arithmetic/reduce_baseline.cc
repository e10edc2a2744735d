#include "worker/arithmetic/reduce_baseline.h"

#include "worker/arithmetic/reduce_loops.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace farandole::worker::arithmetic {
namespace {

using reduce_loops::Vector;

struct BaselineForm {
  static constexpr int kBytes = 16;
  using Halves = Vector<uint16_t, 8>;
  using Bits = Vector<uint32_t, 16>;
  using Floats = Vector<float, 16>;

  // As half.h, which says why.
  static FARANDOLE_INLINE Floats FromFloat16(Halves halves) {
    const Bits half = Long(halves);
    const Bits sign = (half & 0x8000) << 16, magnitude = half & 0x7fff;
    const Bits quiet = magnitude > 0x7c00 ? Bits{} + 0x400000 : Bits{};
    const Bits special = 0x7f800000 | (magnitude & 0x3ff) << 13 | quiet;
    const Bits scaled = (Bits)((Floats)(magnitude << 13) * 0x1p112f);
    return (Floats)(sign | (magnitude >= 0x7c00 ? special : scaled));
  }

  static FARANDOLE_INLINE Halves ToFloat16(Floats value) {
    const Bits bits = (Bits)value;
    const Bits sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    const Bits normal = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
    const Bits denormal = (Bits)((Floats)magnitude + 0.5f) - 0x3f000000;
    Bits half = magnitude < 0x38800000 ? denormal : normal;
    half = magnitude >= 0x477ff000 ? Bits{} + 0x7c00 : half;
    half = magnitude > 0x7f800000 ? 0x7e00 | (magnitude >> 13 & 0x3ff) : half;
    return Short(sign | half);
  }

#if defined(__x86_64__)
  static FARANDOLE_INLINE Bits Long(Halves halves) {
    const __m128i low = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(&halves));
    return (Bits)_mm_unpacklo_epi16(low, _mm_setzero_si128());
  }
  // There is only one that saturates signed numbers.
  static FARANDOLE_INLINE Halves Short(Bits bits) {
    const __m128i wide = _mm_srai_epi32(_mm_slli_epi32((__m128i)bits, 16), 16);
    Halves halves;
    _mm_storel_epi64(reinterpret_cast<__m128i*>(&halves), _mm_packs_epi32(wide, wide));
    return halves;
  }
  static FARANDOLE_INLINE void Stream(char* to, Vector<uint8_t, 16> value) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to), (__m128i)value);
  }
  static FARANDOLE_INLINE void Stream(char* to, Vector<uint8_t, 8> value) {
    _mm_stream_si64(reinterpret_cast<long long*>(to), (long long)value);  // NOLINT(runtime/int)
  }
  static FARANDOLE_INLINE void Fence() { _mm_sfence(); }
#else
  static FARANDOLE_INLINE Bits Long(Halves halves) { return __builtin_convertvector(halves, Bits); }
  static FARANDOLE_INLINE Halves Short(Bits bits) { return __builtin_convertvector(bits, Halves); }
  template <typename V>
  static FARANDOLE_INLINE void Stream(char* to, V value) {
    __builtin_memcpy(to, &value, sizeof value);
  }
  static FARANDOLE_INLINE void Fence() {}
#endif

  template <typename V>
  static FARANDOLE_INLINE V LoadPart(const char* from, int64_t bytes) {
    return reduce_loops::LoadPartOf<V>(from, bytes);
  }
  template <typename V>
  static FARANDOLE_INLINE void StorePart(char* to, V value, int64_t bytes) {
    reduce_loops::StorePartOf(to, value, bytes);
  }
  template <typename V>
  static FARANDOLE_INLINE void Pin(V* value) {
#if defined(__x86_64__)
    asm("" : "+x"(*value));
#else
    asm("" : "+w"(*value));
#endif
  }
};

constexpr ReduceKernels kKernels = reduce_loops::MakeKernels<BaselineForm>("baseline");

}  // namespace

const ReduceKernels* BaselineKernels() { return &kKernels; }

}  // namespace farandole::worker::arithmetic
