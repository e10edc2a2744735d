#include "tests/bench/sum_loops.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

namespace farandole::bench {
namespace {

struct Free {
  void operator()(float* p) const { std::free(p); }
};
using Cells = std::unique_ptr<float[], Free>;

Cells Aligned(int64_t bytes) { return Cells(static_cast<float*>(std::aligned_alloc(64, bytes))); }

// Both ranks one after the other; the last chunk is not whole.
TEST(SumLoopsTest, WriteTheSumToBothOnce) {
  constexpr int64_t kBytes = 10 * 4096 + 128, kCount = kBytes / 4;
  for (const bool streaming : {false, true}) {
    for (const int64_t chunk_bytes : {0, 4096}) {
      const Cells a = Aligned(kBytes), b = Aligned(kBytes);
      for (int64_t i = 0; i < kCount; ++i) {
        a[i] = static_cast<float>(i);
        b[i] = static_cast<float>(3 * i + 1);
      }
      for (const int rank : {1, 0}) SumToBoth(a.get(), b.get(), kBytes, rank, streaming, chunk_bytes);
      for (int64_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(a[i], static_cast<float>(4 * i + 1)) << i << " streaming " << streaming << " of " << chunk_bytes;
        ASSERT_EQ(b[i], a[i]) << i;
      }
    }
  }
}

}  // namespace
}  // namespace farandole::bench
