#include "tests/bench/pattern.h"

#include <gtest/gtest.h>

#include <vector>

namespace farandole::bench {
namespace {

constexpr int64_t kCount = 100003;

std::vector<float> Filled(int rank, int size, int64_t call) {
  std::vector<float> cells(kCount);
  Pattern("float32", rank, size).Fill(reinterpret_cast<char*>(cells.data()), kCount * 4, call);
  return cells;
}

TEST(PatternTest, DiffersBetweenCellsRanksAndCalls) {
  const std::vector<float> cells = Filled(0, 3, 0), of_other = Filled(1, 3, 0), later = Filled(0, 3, 1);
  for (int64_t i = 1; i < kCount; ++i) {
    EXPECT_NE(cells[i], cells[i - 1]);
    EXPECT_NE(cells[i], of_other[i]);
    EXPECT_NE(cells[i], later[i]);
  }
}

TEST(PatternTest, KnowsTheSumAndEveryOther) {
  constexpr int kRanks = 8;
  std::vector<float> sum(kCount);
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::vector<float> cells = Filled(rank, kRanks, 7);
    for (int64_t i = 0; i < kCount; ++i) sum[i] += cells[i];
  }
  const Pattern pattern("float32", 3, kRanks);
  const char* const data = reinterpret_cast<const char*>(sum.data());
  EXPECT_TRUE(pattern.IsSum(data, kCount * 4, 7));
  EXPECT_FALSE(pattern.IsSum(data, kCount * 4, 8));
  for (int64_t wrong : {int64_t{0}, kCount / 2, kCount - 1}) {
    sum[wrong] += 1;
    EXPECT_FALSE(pattern.IsSum(data, kCount * 4, 7)) << wrong;
    sum[wrong] -= 1;
  }
}

TEST(PatternTest, HasExactSumsOfTwoInBothTypesOf16Bits) {
  for (const std::string dtype : {"float16", "bfloat16"}) {
    const bool half = dtype == "float16";
    std::vector<uint16_t> cells[2], sum(kCount);
    for (int rank = 0; rank < 2; ++rank) {
      cells[rank].resize(kCount);
      Pattern(dtype, rank, 2).Fill(reinterpret_cast<char*>(cells[rank].data()), kCount * 2, 3);
    }
    const auto widen = half ? worker::arithmetic::FloatFromFloat16 : worker::arithmetic::FloatFromBfloat16;
    for (int64_t i = 0; i < kCount; ++i) {
      const float exact = widen(cells[0][i]) + widen(cells[1][i]);
      sum[i] = half ? worker::arithmetic::Float16FromFloat(exact) : worker::arithmetic::Bfloat16FromFloat(exact);
      ASSERT_EQ(widen(sum[i]), exact);
    }
    EXPECT_TRUE(Pattern(dtype, 0, 2).IsSum(reinterpret_cast<const char*>(sum.data()), kCount * 2, 3));
  }
}

}  // namespace
}  // namespace farandole::bench
