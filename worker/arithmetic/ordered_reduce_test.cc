#include "worker/arithmetic/ordered_reduce.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "worker/arithmetic/half.h"

namespace farandole::worker::arithmetic {
namespace {

constexpr DataType kTypes[] = {DataType::kUint8,   DataType::kInt8,    DataType::kUint16,  DataType::kInt16,
                               DataType::kInt32,   DataType::kInt64,   DataType::kFloat16, DataType::kFloat32,
                               DataType::kFloat64, DataType::kBfloat16};
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct};

template <typename T>
T Combine(ReduceOp op, T a, T b) {
  if (op == ReduceOp::kMin || op == ReduceOp::kMax) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
      if (a == b) return (std::signbit(a) == (op == ReduceOp::kMin)) ? a : b;
    }
    return (a < b) == (op == ReduceOp::kMin) ? a : b;
  }
  T result;
  if constexpr (std::is_floating_point_v<T>) {
    result = op == ReduceOp::kSum ? a + b : a * b;
  } else {
    (void)(op == ReduceOp::kSum ? __builtin_add_overflow(a, b, &result) : __builtin_mul_overflow(a, b, &result));
  }
  return result;
}

// One element of all operands by the words of reduction.h.
template <typename T>
T Expected(const Reduction& how, const std::vector<T>& operands) {
  const T prescale = static_cast<T>(how.prescale), postscale = static_cast<T>(how.postscale);
  T result = operands[0] * prescale;
  for (size_t i = 1; i < operands.size(); ++i) result = Combine<T>(how.op, result, operands[i] * prescale);
  if (how.mean != 1) result = static_cast<T>(static_cast<double>(result) * how.mean);
  return result * postscale;
}

uint16_t ExpectedHalf(const Reduction& how, const std::vector<uint16_t>& operands) {
  const bool is_float16 = how.dtype == DataType::kFloat16;
  const auto widen = [=](uint16_t half) { return is_float16 ? FloatFromFloat16(half) : FloatFromBfloat16(half); };
  const auto narrow = [=](float value) { return is_float16 ? Float16FromFloat(value) : Bfloat16FromFloat(value); };
  std::vector<float> wide;
  for (uint16_t half : operands) wide.push_back(widen(narrow(widen(half) * static_cast<float>(how.prescale))));
  const float mean = static_cast<float>(how.mean);
  const uint16_t result = narrow(Expected(Reduction(DataType::kFloat32, how.op), wide) * mean);
  return narrow(widen(result) * static_cast<float>(how.postscale));
}

// Whatever NaN is expected, the one that results have: all bits set.
template <typename T>
bool SameNumber(T expected, T actual) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(expected)) std::memset(&expected, 0xff, sizeof expected);
  }
  return std::memcmp(&expected, &actual, sizeof expected) == 0;
}

bool SameHalf(DataType dtype, uint16_t expected, uint16_t actual) {
  const int infinity = dtype == DataType::kFloat16 ? 0x7c00 : 0x7f80;
  return actual == ((expected & 0x7fff) > infinity ? 0xffff : expected);
}

template <typename T>
void CheckElement(const Reduction& how, const std::vector<std::string>& operands, int64_t at, const char* actual) {
  std::vector<T> values(operands.size());
  T result;
  for (size_t i = 0; i < operands.size(); ++i) std::memcpy(&values[i], operands[i].data() + at * sizeof(T), sizeof(T));
  std::memcpy(&result, actual + at * sizeof(T), sizeof(T));
  if (values.size() == 1 && !how.scales()) {  // a copy
    ASSERT_EQ(std::memcmp(&values[0], &result, sizeof(T)), 0) << at;
    return;
  }
  if (IsHalf(how.dtype)) {
    if constexpr (std::is_same_v<T, uint16_t>) {
      ASSERT_TRUE(SameHalf(how.dtype, ExpectedHalf(how, values), result))
          << at << ": " << result << ", not " << ExpectedHalf(how, values);
    }
  } else {
    const T expected = Expected(how, values);
    ASSERT_TRUE(SameNumber(expected, result)) << at << ": " << +result << ", not " << +expected;
  }
}

void Check(const Reduction& how, const std::vector<std::string>& operands, int64_t at, const char* actual) {
  switch (how.dtype) {
    case DataType::kUint8:
      return CheckElement<uint8_t>(how, operands, at, actual);
    case DataType::kInt8:
      return CheckElement<int8_t>(how, operands, at, actual);
    case DataType::kInt16:
      return CheckElement<int16_t>(how, operands, at, actual);
    case DataType::kInt32:
      return CheckElement<int32_t>(how, operands, at, actual);
    case DataType::kInt64:
      return CheckElement<int64_t>(how, operands, at, actual);
    case DataType::kFloat32:
      return CheckElement<float>(how, operands, at, actual);
    case DataType::kFloat64:
      return CheckElement<double>(how, operands, at, actual);
    default:
      return CheckElement<uint16_t>(how, operands, at, actual);
  }
}

class OrderedReduceTest : public testing::TestWithParam<DataType> {
 protected:
  // Random bits: every exponent, NaN, infinity and denormal occurs. Operands beyond the first are often near to it.
  std::vector<std::string> Operands(int ranks, int64_t bytes) {
    std::vector<std::string> operands(ranks, std::string(bytes, '\0'));
    for (int rank = 0; rank < ranks; ++rank) {
      for (int64_t i = 0; i < bytes; ++i) {
        operands[rank][i] = rank > 0 && (i ^ i / 8) % 2 == 1 ? operands[0][i] : static_cast<char>(random_());
      }
    }
    return operands;
  }

  // `shift`: bytes by which each place lies beside an aligned one, more for every next operand.
  void Run(const Reduction& how, int ranks, int64_t count, int shift) {
    SCOPED_TRACE(std::string(Name(how.op)) + " of " + std::to_string(ranks) + ", " + std::to_string(how.prescale) +
                 ", " + std::to_string(how.mean) + ", " + std::to_string(how.postscale) + ", " + std::to_string(count));
    const int64_t bytes = count * SizeOf(how.dtype);
    const std::vector<std::string> operands = Operands(ranks, bytes);
    std::vector<std::string> places;
    std::vector<const char*> sources;
    std::vector<char*> targets;
    for (int rank = 0; rank < ranks; ++rank) {
      places.push_back(std::string(shift * (rank + 1), 'x') + operands[rank] + std::string(16, 'x'));
    }
    for (int rank = 0; rank < ranks; ++rank) {
      sources.push_back(places[rank].data() + shift * (rank + 1));
      targets.push_back(places[rank].data() + shift * (rank + 1));
    }
    std::string out(bytes + shift + 16, 'x');
    OrderedReduce(how, sources, out.data() + shift, count);
    for (int64_t i = 0; i < count; ++i) Check(how, operands, i, out.data() + shift);
    for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(std::memcmp(sources[rank], operands[rank].data(), bytes), 0);
    for (int i = 0; i < shift; ++i) EXPECT_EQ(out[i], 'x');
    for (size_t i = shift + bytes; i < out.size(); ++i) EXPECT_EQ(out[i], 'x');
    OrderedReduceToAll(how, targets, count);
    for (int rank = 0; rank < ranks; ++rank) {
      ASSERT_EQ(std::memcmp(targets[rank], targets[0], bytes), 0) << rank;
      EXPECT_EQ(places[rank].substr(0, shift * (rank + 1)), std::string(shift * (rank + 1), 'x'));
      EXPECT_EQ(places[rank].substr(shift * (rank + 1) + bytes), std::string(16, 'x'));
    }
    for (int64_t i = 0; i < count; ++i) Check(how, operands, i, targets[0]);
  }

  std::mt19937_64 random_{11};
};

TEST_P(OrderedReduceTest, EqualsTheReference) {
  const bool scales = GetParam() > DataType::kInt64;
  const double third = 1.0 / 3;
  const std::vector<std::array<double, 3>> factors = {
      {1, 1, 1},     {0.5, 1, 1},     {third, 1, 1}, {1, 0.5, 1},        {1, 1, 0.5},    {third, third, 1},
      {1, 1, third}, {0.1, 1, third}, {1, 3, third}, {third, 0.1, 0.25}, {0.1, 7, third}};
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (ReduceOp op : kOps) {
      for (const auto& [prescale, postscale, mean] : factors) {
        const Reduction how(GetParam(), op, scales ? prescale : 1, scales ? postscale : 1, scales ? mean : 1);
        for (int64_t count : {0, 1, 33, 129}) Run(how, ranks, count, count % 4);
      }
    }
  }
}

// Several pieces and a rest, at every alignment.
TEST_P(OrderedReduceTest, LongOperands) {
  for (int ranks : {1, 2, 3, 9, 17}) {
    for (int shift : {0, 1, 2, 5, 8}) {
      Run(Reduction(GetParam(), ReduceOp::kSum), ranks, 5003, shift);
      if (GetParam() > DataType::kInt64) Run({GetParam(), ReduceOp::kSum, 0.3, 0.1, 0.7}, ranks, 5003, shift);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, OrderedReduceTest, testing::ValuesIn(kTypes),
                         [](const auto& info) { return std::string(Name(info.param)); });

uint16_t ReduceHalves(const Reduction& how, const std::vector<uint16_t>& values) {
  std::vector<const char*> sources;
  for (const uint16_t& value : values) sources.push_back(reinterpret_cast<const char*>(&value));
  uint16_t result;
  OrderedReduce(how, sources, reinterpret_cast<char*>(&result), 1);
  return result;
}

TEST(OrderedReduceOfHalvesTest, PartialSumsDoNotOverflow) {
  const uint16_t large = Float16FromFloat(60000), minus = Float16FromFloat(-60000);
  EXPECT_EQ(ReduceHalves(DataType::kFloat16, {large, large, minus}), large);
  // An average of what overflows in the sum.
  EXPECT_EQ(ReduceHalves({DataType::kFloat16, ReduceOp::kSum, 1, 1, 0.5}, {large, large}), large);
  EXPECT_EQ(ReduceHalves(DataType::kFloat16, {large, large}), 0x7c00);
}

TEST(OrderedReduceOfHalvesTest, RoundsOnce) {
  // 2048 + 1 + 1: each 1 alone is a tie that falls back to 2048.
  const uint16_t two_k = Float16FromFloat(2048), one = Float16FromFloat(1);
  EXPECT_EQ(ReduceHalves(DataType::kFloat16, {two_k, one, one}), Float16FromFloat(2050));
  const uint16_t b256 = Bfloat16FromFloat(256), b1 = Bfloat16FromFloat(1);
  EXPECT_EQ(ReduceHalves(DataType::kBfloat16, {b256, b1, b1}), Bfloat16FromFloat(258));
}

TEST(OrderedReduceOfHalvesTest, FactorsRoundWhatTheyMake) {
  // As torch rounds: 2047 * 1.001 and 5 * 1.001 before the sum, the sum before it is doubled.
  const float f = 1.001f;
  const uint16_t a = Float16FromFloat(2047), b = Float16FromFloat(5);
  const uint16_t fa = Float16FromFloat(2047 * f), fb = Float16FromFloat(5 * f);
  const uint16_t sum = Float16FromFloat(FloatFromFloat16(fa) + FloatFromFloat16(fb));
  EXPECT_EQ(ReduceHalves({DataType::kFloat16, ReduceOp::kSum, f}, {a, b}), sum);
  EXPECT_EQ(ReduceHalves({DataType::kFloat16, ReduceOp::kSum, f, 0.3}, {a, b}),
            Float16FromFloat(FloatFromFloat16(sum) * 0.3f));
  // The sum overflows before it is halved, unlike that of an average.
  const uint16_t large = Float16FromFloat(60000);
  EXPECT_EQ(ReduceHalves({DataType::kFloat16, ReduceOp::kSum, 1, 0.5}, {large, large}), 0x7c00);
}

TEST(OrderedReduceOfFloatsTest, TheMeanOfFloatsIsAProductInDouble) {
  const std::vector<float> values = {0.1f, 1.0f / 3, 16777213, 1e-3f};
  std::vector<const char*> sources(3, reinterpret_cast<const char*>(values.data()));
  std::vector<float> result(values.size());
  OrderedReduce({DataType::kFloat32, ReduceOp::kSum, 1, 1, 1.0 / 3}, sources, reinterpret_cast<char*>(result.data()),
                4);
  for (size_t i = 0; i < values.size(); ++i) {
    const double sum = values[i] + values[i] + values[i];
    EXPECT_EQ(result[i], static_cast<float>(sum * (1.0 / 3))) << i;
  }
}

TEST(OrderedReduceOfHalvesTest, NanAndInfinityStay) {
  const uint16_t infinity = 0x7c00, nan = 0xffff, one = Float16FromFloat(1);
  EXPECT_EQ(ReduceHalves({DataType::kFloat16, ReduceOp::kSum, 0.5, 2}, {one, infinity, one}), infinity);
  EXPECT_EQ(ReduceHalves(DataType::kFloat16, {infinity, one, uint16_t{0xfc00}}), nan);
  for (ReduceOp op : kOps) {
    for (double factor : {1.0, 0.5}) {
      EXPECT_EQ(ReduceHalves({DataType::kFloat16, op, factor}, {one, 0x7e01, infinity}), nan);
      EXPECT_EQ(ReduceHalves({DataType::kBfloat16, op, factor}, {one, 0x7f81, 0x7f80}), nan);
    }
  }
}

}  // namespace
}  // namespace farandole::worker::arithmetic
