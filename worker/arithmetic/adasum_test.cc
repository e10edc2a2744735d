#include "worker/arithmetic/adasum.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "worker/arithmetic/half.h"

namespace farandole::worker::arithmetic {
namespace {

using Vectors = std::vector<std::vector<double>>;

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

std::vector<double> Pair(const std::vector<double>& a, const std::vector<double>& b) {
  const double dot = Dot(a, b), square_a = Dot(a, a), square_b = Dot(b, b);
  const double of_a = square_a == 0 ? 1 : 1 - dot / (2 * square_a), of_b = square_b == 0 ? 1 : 1 - dot / (2 * square_b);
  std::vector<double> out(a.size());
  for (size_t i = 0; i < a.size(); ++i) out[i] = of_a * a[i] + of_b * b[i];
  return out;
}

// The tree as it is described, vector by vector.
std::vector<double> Reference(Vectors level) {
  while (level.size() > 1) {
    Vectors next;
    for (size_t i = 0; i + 1 < level.size(); i += 2) next.push_back(Pair(level[i], level[i + 1]));
    if (level.size() % 2 == 1) next.push_back(level.back());
    level = next;
  }
  return level[0];
}

std::string Packed(DataType dtype, const std::vector<double>& values) {
  std::string packed(values.size() * SizeOf(dtype), '\0');
  for (size_t i = 0; i < values.size(); ++i) {
    const float single = static_cast<float>(values[i]);
    const uint16_t half = dtype == DataType::kFloat16 ? Float16FromFloat(single) : Bfloat16FromFloat(single);
    const void* const from = dtype == DataType::kFloat64   ? static_cast<const void*>(&values[i])
                             : dtype == DataType::kFloat32 ? static_cast<const void*>(&single)
                                                           : static_cast<const void*>(&half);
    std::memcpy(packed.data() + i * SizeOf(dtype), from, SizeOf(dtype));
  }
  return packed;
}

std::vector<double> Unpacked(DataType dtype, const std::string& packed) {
  std::vector<double> values(packed.size() / SizeOf(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    float single;
    uint16_t half;
    const char* const from = packed.data() + i * SizeOf(dtype);
    if (dtype == DataType::kFloat64) {
      std::memcpy(&values[i], from, 8);
    } else if (dtype == DataType::kFloat32) {
      std::memcpy(&single, from, 4);
      values[i] = single;
    } else {
      std::memcpy(&half, from, 2);
      values[i] = dtype == DataType::kFloat16 ? FloatFromFloat16(half) : FloatFromBfloat16(half);
    }
  }
  return values;
}

// The operands in the type, shifted by a byte; the dot products in two parts.
std::vector<double> Adasum(DataType dtype, const Vectors& operands) {
  std::vector<std::string> packed;
  std::vector<const char*> sources, rests;
  const int number = static_cast<int>(operands.size());
  const int64_t count = operands[0].size(), first = count / 3;
  for (const auto& operand : operands) packed.push_back("x" + Packed(dtype, operand));
  for (const auto& operand : packed) {
    sources.push_back(operand.data() + 1);
    rests.push_back(operand.data() + 1 + first * SizeOf(dtype));
  }
  std::vector<double> products(AdasumProducts(number));
  AddDotProducts(dtype, sources, first, absl::MakeSpan(products));
  AddDotProducts(dtype, rests, count - first, absl::MakeSpan(products));
  std::string out(count * SizeOf(dtype), '\0');
  WeightedSum(dtype, sources, AdasumWeights(products, number), out.data(), count);
  return Unpacked(dtype, out);
}

Vectors RandomOperands(int number, int64_t count, std::mt19937_64* random) {
  std::normal_distribution<double> normal;
  std::vector<double> common(count);
  for (double& value : common) value = normal(*random);
  Vectors operands;
  for (int i = 0; i < number; ++i) {
    operands.push_back(common);
    for (double& value : operands.back()) value = value * (i % 3) + normal(*random);
  }
  return operands;
}

TEST(AdasumTest, EqualsTheTreeOfVectors) {
  std::mt19937_64 random(3);
  struct Case {
    DataType dtype;
    double error;  // relative to the result's largest element
  };
  // Half a step of the type; what double loses where operands of few elements nearly cancel.
  for (const Case& c : {Case{DataType::kFloat64, 1e-9}, Case{DataType::kFloat32, 0x1p-24},
                        Case{DataType::kFloat16, 0x1p-11}, Case{DataType::kBfloat16, 0x1p-8}}) {
    for (int number : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 31}) {
      for (int64_t count : {1, 7, 511, 512, 1500}) {
        // As the type holds them.
        Vectors operands = RandomOperands(number, count, &random);
        for (auto& operand : operands) operand = Unpacked(c.dtype, Packed(c.dtype, operand));
        const std::vector<double> expected = Reference(operands), actual = Adasum(c.dtype, operands);
        double largest = 0;
        for (double value : expected) largest = std::max(largest, std::fabs(value));
        for (int64_t i = 0; i < count; ++i) {
          ASSERT_NEAR(actual[i], expected[i], 1.001 * c.error * largest)
              << Name(c.dtype) << ", " << number << " operands of " << count << ", " << i;
        }
      }
    }
  }
}

TEST(AdasumTest, SumOfOrthogonalAndMeanOfEqualOnes) {
  EXPECT_EQ(Adasum(DataType::kFloat32, {{3, 0, 0}, {0, 5, 0}, {0, 0, 7}}), (std::vector<double>{3, 5, 7}));
  EXPECT_EQ(Adasum(DataType::kFloat16, {{3, -4}, {3, -4}, {3, -4}, {3, -4}}), (std::vector<double>{3, -4}));
}

TEST(AdasumTest, ZerosChangeNothing) {
  EXPECT_EQ(Adasum(DataType::kFloat32, {{3, 4}, {0, 0}}), (std::vector<double>{3, 4}));
  EXPECT_EQ(Adasum(DataType::kFloat32, {{0, 0}, {0, 0}, {3, 4}}), (std::vector<double>{3, 4}));
  EXPECT_EQ(Adasum(DataType::kFloat32, {{0, 0}, {0, 0}}), (std::vector<double>{0, 0}));
  EXPECT_EQ(Adasum(DataType::kFloat32, {{}, {}}), std::vector<double>());
}

// Opposite ones leave nothing, whose direction must not count.
TEST(AdasumTest, Cancellation) {
  EXPECT_EQ(Adasum(DataType::kFloat64, {{0.1, 0.7}, {-0.1, -0.7}, {1, 2}}), (std::vector<double>{1, 2}));
  EXPECT_EQ(Adasum(DataType::kFloat64, {{1, 2}, {3, 0.5}, {0.1, 0.7}, {-0.1, -0.7}}),
            Adasum(DataType::kFloat64, {{1, 2}, {3, 0.5}}));
}

TEST(AdasumTest, ScalesWithItsOperands) {
  const std::vector<double> one = Adasum(DataType::kFloat64, {{1, 2}, {3, -1}, {0.5, 0}});
  const std::vector<double> thousand = Adasum(DataType::kFloat64, {{1024, 2048}, {3072, -1024}, {512, 0}});
  EXPECT_EQ(thousand, (std::vector<double>{one[0] * 1024, one[1] * 1024}));
}

TEST(AdasumTest, NanAndInfinityAreSeen) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  for (double bad : {nan, infinity, -infinity}) {
    for (const auto& operands : {Vectors{{1, bad}, {1, 2}}, Vectors{{1, 2}, {3, 4}, {bad, 1}}}) {
      for (double value : Adasum(DataType::kFloat32, operands)) EXPECT_TRUE(std::isnan(value));
    }
  }
}

TEST(AdasumTest, FloatingPointTypesOnly) {
  EXPECT_TRUE(HasAdasum(DataType::kBfloat16));
  EXPECT_FALSE(HasAdasum(DataType::kInt32));
  EXPECT_FALSE(HasAdasum(DataType::kBool));
}

}  // namespace
}  // namespace farandole::worker::arithmetic
