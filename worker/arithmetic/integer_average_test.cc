#include "worker/arithmetic/integer_average.h"

#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace farandole::worker::arithmetic {
namespace {

std::vector<int64_t> Average(std::vector<int64_t> values, double postscale, int size) {
  AverageIntegers(DataType::kInt64, values.data(), values.data(), values.size(), postscale, size);
  return values;
}

TEST(IntegerAverageTest, ExactQuotientsAreExact) {
  for (int size = 1; size <= 1000; ++size) {
    EXPECT_EQ(Average({size, -size, 7 * int64_t{size}}, 1.0, size), (std::vector<int64_t>{1, -1, 7})) << size;
  }
}

TEST(IntegerAverageTest, TruncatesTowardZero) {
  EXPECT_EQ(Average({5, -5, 1, -1}, 1.0, 2), (std::vector<int64_t>{2, -2, 0, 0}));
  EXPECT_EQ(Average({5, -5}, 0.5, 2), (std::vector<int64_t>{1, -1}));
}

TEST(IntegerAverageTest, KeepsToTheTypesRange) {
  constexpr int32_t kMax = std::numeric_limits<int32_t>::max();
  constexpr int32_t kMin = std::numeric_limits<int32_t>::min();
  std::vector<int32_t> values = {kMax, kMin, kMax, kMin};
  std::vector<int32_t> out(4);
  AverageIntegers(DataType::kInt32, out.data(), values.data(), 4, 8.0, 2);
  EXPECT_EQ(out, (std::vector<int32_t>{kMax, kMin, kMax, kMin}));
  AverageIntegers(DataType::kInt32, out.data(), values.data(), 4, 2.0, 2);
  EXPECT_EQ(out, values);
}

}  // namespace
}  // namespace farandole::worker::arithmetic
