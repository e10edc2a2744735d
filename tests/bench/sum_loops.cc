#include "tests/bench/sum_loops.h"

#include <immintrin.h>

#include <algorithm>

namespace farandole::bench {
namespace {

using Loop = void (*)(float* a, float* b, int64_t count);

template <bool kStreaming>
__attribute__((target("avx512f"))) void Wide(float* a, float* b, int64_t count) {
  for (int64_t i = 0; i < count; i += 16) {
    const __m512 sum = _mm512_add_ps(_mm512_load_ps(a + i), _mm512_load_ps(b + i));
    if (kStreaming) {
      _mm512_stream_ps(a + i, sum);
      _mm512_stream_ps(b + i, sum);
    } else {
      _mm512_store_ps(a + i, sum);
      _mm512_store_ps(b + i, sum);
    }
  }
  if (kStreaming) _mm_sfence();
}

template <bool kStreaming>
__attribute__((target("avx2"))) void Narrow(float* a, float* b, int64_t count) {
  for (int64_t i = 0; i < count; i += 8) {
    const __m256 sum = _mm256_add_ps(_mm256_load_ps(a + i), _mm256_load_ps(b + i));
    if (kStreaming) {
      _mm256_stream_ps(a + i, sum);
      _mm256_stream_ps(b + i, sum);
    } else {
      _mm256_store_ps(a + i, sum);
      _mm256_store_ps(b + i, sum);
    }
  }
  if (kStreaming) _mm_sfence();
}

Loop LoopOf(bool streaming) {
  if (__builtin_cpu_supports("avx512f")) return streaming ? Wide<true> : Wide<false>;
  return streaming ? Narrow<true> : Narrow<false>;
}

}  // namespace

void SumToBoth(float* a, float* b, int64_t bytes, int rank, bool streaming, int64_t chunk_bytes) {
  const Loop loop = LoopOf(streaming);
  const int64_t count = bytes / 4, half = count / 2;
  if (chunk_bytes == 0) return loop(a + rank * half, b + rank * half, half);
  const int64_t chunk = chunk_bytes / 4;
  for (int64_t at = rank * chunk; at < count; at += 2 * chunk) loop(a + at, b + at, std::min(chunk, count - at));
}

}  // namespace farandole::bench
