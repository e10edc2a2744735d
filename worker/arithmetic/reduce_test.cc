#include "worker/arithmetic/reduce.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "worker/arithmetic/half.h"

namespace farandole::worker::arithmetic {
namespace {

constexpr DataType kTypes[] = {DataType::kUint8,   DataType::kInt8,    DataType::kUint16,  DataType::kInt16,
                               DataType::kInt32,   DataType::kInt64,   DataType::kFloat16, DataType::kFloat32,
                               DataType::kFloat64, DataType::kBfloat16};

// float32 to float16 by searching the table of all finite halves: slow, and nothing in common with the code under test.
uint16_t SlowHalf(double value, bool bfloat) {
  if (std::isnan(value)) return bfloat ? 0x7fc0 : 0x7e00;
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const uint16_t infinity = bfloat ? 0x7f80 : 0x7c00;
  const int mantissa = bfloat ? 7 : 10, bias = bfloat ? 127 : 15;
  auto decode = [&](int bits) {
    const int exponent = bits >> mantissa, fraction = bits & ((1 << mantissa) - 1);
    if (exponent == 0) return std::ldexp(fraction, 1 - bias - mantissa);
    return std::ldexp((1 << mantissa) + fraction, exponent - bias - mantissa);
  };
  const double magnitude = std::fabs(value);
  int low = 0, high = infinity;  // decode(infinity) is the power of two at which rounding treats infinity as lying
  if (magnitude >= decode(high)) return sign | infinity;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (decode(middle) <= magnitude ? low : high) = middle;
  }
  const double below = magnitude - decode(low), above = decode(high) - magnitude;
  if (below < above || (below == above && low % 2 == 0)) return sign | low;
  return sign | high;
}

double SlowValue(uint16_t bits, bool bfloat) {
  const int mantissa = bfloat ? 7 : 10, bias = bfloat ? 127 : 15;
  const int exponent = (bits & 0x7fff) >> mantissa, fraction = bits & ((1 << mantissa) - 1);
  double value = exponent == 0 ? std::ldexp(fraction, 1 - bias - mantissa)
                               : std::ldexp((1 << mantissa) + fraction, exponent - bias - mantissa);
  if (exponent == (bfloat ? 255 : 31)) {
    value = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  return bits & 0x8000 ? -value : value;
}

template <typename T>
T Read(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename T>
void Write(char* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

template <typename T>
void WrapSum(char* out, const char* a, const char* b) {
  T sum;
  (void)__builtin_add_overflow(Read<T>(a), Read<T>(b), &sum);
  Write(out, sum);
}

template <typename T>
void WrapProduct(char* out, const char* a, const char* b) {
  T product;
  (void)__builtin_mul_overflow(Read<T>(a), Read<T>(b), &product);
  Write(out, product);
}

void ReferenceProduct(DataType dtype, char* out, const char* a, const char* b) {
  switch (dtype) {
    case DataType::kUint8:
      return WrapProduct<uint8_t>(out, a, b);
    case DataType::kInt8:
      return WrapProduct<int8_t>(out, a, b);
    case DataType::kUint16:
      return WrapProduct<uint16_t>(out, a, b);
    case DataType::kInt16:
      return WrapProduct<int16_t>(out, a, b);
    case DataType::kInt32:
      return WrapProduct<int32_t>(out, a, b);
    case DataType::kInt64:
      return WrapProduct<int64_t>(out, a, b);
    case DataType::kFloat32:
      return Write(out, Read<float>(a) * Read<float>(b));
    case DataType::kFloat64:
      return Write(out, Read<double>(a) * Read<double>(b));
    default:
      break;
  }
  const bool bfloat = dtype == DataType::kBfloat16;
  const float x = SlowValue(Read<uint16_t>(a), bfloat), y = SlowValue(Read<uint16_t>(b), bfloat);
  Write(out, SlowHalf(x * y, bfloat));
}

template <typename T>
bool IntegerBelow(const char* a, const char* b) {
  return Read<T>(a) < Read<T>(b);
}

bool FloatBelow(double a, double b) {
  if (a == 0 && b == 0) return std::signbit(a) && !std::signbit(b);
  return a < b;
}

bool Below(DataType dtype, const char* a, const char* b) {
  switch (dtype) {
    case DataType::kUint8:
      return IntegerBelow<uint8_t>(a, b);
    case DataType::kInt8:
      return IntegerBelow<int8_t>(a, b);
    case DataType::kUint16:
      return IntegerBelow<uint16_t>(a, b);
    case DataType::kInt16:
      return IntegerBelow<int16_t>(a, b);
    case DataType::kInt32:
      return IntegerBelow<int32_t>(a, b);
    case DataType::kInt64:
      return IntegerBelow<int64_t>(a, b);
    case DataType::kFloat32:
      return FloatBelow(Read<float>(a), Read<float>(b));
    case DataType::kFloat64:
      return FloatBelow(Read<double>(a), Read<double>(b));
    default:
      break;
  }
  const bool bfloat = dtype == DataType::kBfloat16;
  return FloatBelow(SlowValue(Read<uint16_t>(a), bfloat), SlowValue(Read<uint16_t>(b), bfloat));
}

void ReferenceSum(DataType dtype, char* out, const char* a, const char* b) {
  switch (dtype) {
    case DataType::kUint8:
      return WrapSum<uint8_t>(out, a, b);
    case DataType::kInt8:
      return WrapSum<int8_t>(out, a, b);
    case DataType::kUint16:
      return WrapSum<uint16_t>(out, a, b);
    case DataType::kInt16:
      return WrapSum<int16_t>(out, a, b);
    case DataType::kInt32:
      return WrapSum<int32_t>(out, a, b);
    case DataType::kInt64:
      return WrapSum<int64_t>(out, a, b);
    case DataType::kFloat32:
      return Write(out, Read<float>(a) + Read<float>(b));
    case DataType::kFloat64:
      return Write(out, Read<double>(a) + Read<double>(b));
    default:
      break;
  }
  const bool bfloat = dtype == DataType::kBfloat16;
  const float x = SlowValue(Read<uint16_t>(a), bfloat), y = SlowValue(Read<uint16_t>(b), bfloat);
  Write(out, SlowHalf(x + y, bfloat));
}

template <typename T>
void TruncateScale(char* out, const char* in, double factor) {
  Write(out, static_cast<T>(std::trunc(static_cast<double>(Read<T>(in)) * factor)));
}

void ReferenceScale(DataType dtype, char* out, const char* in, double factor) {
  switch (dtype) {
    case DataType::kUint8:
      return TruncateScale<uint8_t>(out, in, factor);
    case DataType::kInt8:
      return TruncateScale<int8_t>(out, in, factor);
    case DataType::kUint16:
      return TruncateScale<uint16_t>(out, in, factor);
    case DataType::kInt16:
      return TruncateScale<int16_t>(out, in, factor);
    case DataType::kInt32:
      return TruncateScale<int32_t>(out, in, factor);
    case DataType::kInt64:
      return TruncateScale<int64_t>(out, in, factor);
    case DataType::kFloat32:
      return Write(out, Read<float>(in) * static_cast<float>(factor));
    case DataType::kFloat64:
      return Write(out, Read<double>(in) * factor);
    default:
      break;
  }
  const bool bfloat = dtype == DataType::kBfloat16;
  const float x = SlowValue(Read<uint16_t>(in), bfloat);
  Write(out, SlowHalf(x * static_cast<float>(factor), bfloat));
}

bool IsNan(DataType dtype, const char* p) {
  switch (dtype) {
    case DataType::kFloat16:
      return (Read<uint16_t>(p) & 0x7fff) > 0x7c00;
    case DataType::kBfloat16:
      return (Read<uint16_t>(p) & 0x7fff) > 0x7f80;
    case DataType::kFloat32:
      return std::isnan(Read<float>(p));
    case DataType::kFloat64:
      return std::isnan(Read<double>(p));
    default:
      return false;
  }
}

// The NaN that results have: all bits set.
bool IsTheOneNan(DataType dtype, const char* p) {
  return std::all_of(p, p + SizeOf(dtype), [](char byte) { return byte == '\xff'; });
}

// Equal bits; where a NaN of any bits is expected, the one that results have.
bool Same(DataType dtype, const char* actual, const char* expected) {
  if (IsNan(dtype, expected)) return IsTheOneNan(dtype, actual);
  return std::memcmp(actual, expected, SizeOf(dtype)) == 0;
}

// Random bits: every exponent, NaN, infinity and denormal occurs. Half of the operands are near each other in
// magnitude, so that sums round.
std::vector<char> RandomBits(std::mt19937_64& random, size_t bytes) {
  std::vector<char> out(bytes);
  for (char& c : out) c = static_cast<char>(random());
  return out;
}

void RunForm(const ReduceKernels& form, const Reduction& how, const std::vector<const char*>& operands, char* out,
             int64_t count, bool stream = false) {
  form.Find(how.op)->of[static_cast<int>(how.dtype)]({operands.data(), static_cast<int>(operands.size()), &out, 1,
                                                      count, how.prescale, how.postscale, how.mean, stream});
}

void Reference(const Reduction& how, char* out, const char* a, const char* b) {
  if (how.op == ReduceOp::kSum) return ReferenceSum(how.dtype, out, a, b);
  if (how.op == ReduceOp::kProduct) return ReferenceProduct(how.dtype, out, a, b);
  const bool nan = IsNan(how.dtype, a), first = Below(how.dtype, a, b) == (how.op == ReduceOp::kMin);
  std::memcpy(out, nan || (!IsNan(how.dtype, b) && first) ? a : b, SizeOf(how.dtype));
}

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct};

class ReduceTest : public testing::TestWithParam<DataType> {
 protected:
  void Check(const ReduceKernels& form, int64_t count, int shift_out, int shift_a, int shift_b) {
    for (ReduceOp op : kOps) CheckOne(form, op, count, shift_out, shift_a, shift_b);
  }
  void CheckOne(const ReduceKernels& form, ReduceOp op, int64_t count, int shift_out, int shift_a, int shift_b) {
    const DataType dtype = GetParam();
    const int64_t size = SizeOf(dtype);
    std::vector<char> a = RandomBits(random_, count * size + 64), b = RandomBits(random_, count * size + 64);
    if (count % 2 == 1) {
      for (size_t i = 1; i < b.size(); i += 2) b[i] = a[i];  // near exponents
    }
    std::vector<char> out(count * size + 128, 'x');
    RunForm(form, {dtype, op}, {a.data() + shift_a, b.data() + shift_b}, out.data() + shift_out, count);
    for (int64_t i = 0; i < count; ++i) {
      char expected[8];
      Reference({dtype, op}, expected, a.data() + shift_a + i * size, b.data() + shift_b + i * size);
      ASSERT_TRUE(Same(dtype, out.data() + shift_out + i * size, expected))
          << form.name << " " << Name(op) << " cell " << i;
    }
    for (int i = 0; i < shift_out; ++i) ASSERT_EQ(out[i], 'x');
    for (size_t i = shift_out + count * size; i < out.size(); ++i) ASSERT_EQ(out[i], 'x');
  }

  std::mt19937_64 random_{7};
};

TEST_P(ReduceTest, EqualTheReferenceAtAnyLengthAndAlignment) {
  for (const ReduceKernels* form : ReduceForms()) {
    for (int64_t count : {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100, 127, 1001}) {
      Check(*form, count, 0, 0, 0);
      Check(*form, count, 2, 8, 16);
      Check(*form, count, 1, 3, 5);
    }
  }
}

TEST_P(ReduceTest, AccumulatesInPlace) {
  const DataType dtype = GetParam();
  const int64_t size = SizeOf(dtype), count = 4099;
  const std::vector<char> a = RandomBits(random_, count * size), b = RandomBits(random_, count * size);
  std::vector<char> left = a, right = b, apart(count * size);
  Reduce2(dtype, left.data(), left.data(), b.data(), count);
  Reduce2(dtype, right.data(), a.data(), right.data(), count);
  Reduce2(dtype, apart.data(), a.data(), b.data(), count);
  for (int64_t i = 0; i < count * size; i += size) {
    ASSERT_TRUE(Same(dtype, left.data() + i, apart.data() + i)) << i;
    ASSERT_TRUE(Same(dtype, right.data() + i, apart.data() + i)) << i;
  }
}

TEST_P(ReduceTest, ScalesEqualTheReference) {
  const DataType dtype = GetParam();
  const int64_t size = SizeOf(dtype);
  for (double factor : {1.0, 0.5, 1.0 / 3.0, 0.1}) {
    for (int64_t count : {0, 1, 5, 8, 17, 65, 1003}) {
      const std::vector<char> in = RandomBits(random_, count * size + 1);
      std::vector<std::vector<char>> outs;
      outs.emplace_back(count * size + 9, 'x');
      ScaleCopy(dtype, outs[0].data() + 1, in.data() + 1, count, factor);
      outs.push_back(in);
      outs[1].resize(count * size + 9, 'x');
      ScaleInPlace(dtype, outs[1].data() + 1, count, factor);
      for (const ReduceKernels* form : ReduceForms()) {
        if (dtype <= DataType::kInt64) continue;
        outs.emplace_back(count * size + 9, 'x');
        RunForm(*form, {dtype, ReduceOp::kSum, factor}, {in.data() + 1}, outs.back().data() + 1, count);
      }
      for (const std::vector<char>& out : outs) {
        for (int64_t i = 1; i < count * size + 1; i += size) {
          char expected[8];
          ReferenceScale(dtype, expected, in.data() + i, factor);
          ASSERT_TRUE(Same(dtype, out.data() + i, expected)) << &out - outs.data() << " byte " << i;
        }
        for (int64_t i = count * size + 1; i < count * size + 9; ++i) ASSERT_EQ(out[i], 'x');
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ReduceTest, testing::ValuesIn(kTypes),
                         [](const auto& info) { return std::string(Name(info.param)); });

TEST(ReduceTest, IntegersTruncateTowardZeroAndSaturate) {
  int32_t values[] = {7, -7, 1, -1, 2147483647, -2147483647 - 1};
  ScaleInPlace(DataType::kInt32, values, 6, 0.5);
  EXPECT_EQ(std::vector<int32_t>(values, values + 6), (std::vector<int32_t>{3, -3, 0, 0, 1073741823, -1073741824}));
  int64_t large[] = {int64_t{1} << 62, -(int64_t{1} << 62), 3, 0};
  ScaleInPlace(DataType::kInt64, large, 4, 4.0);
  EXPECT_EQ(large[0], std::numeric_limits<int64_t>::max());
  EXPECT_EQ(large[1], std::numeric_limits<int64_t>::min());
  EXPECT_EQ(large[2], 12);
  uint8_t small[] = {200, 1};
  ScaleInPlace(DataType::kUint8, small, 2, 2.0);
  EXPECT_EQ(small[0], 255);
  EXPECT_EQ(small[1], 2);
  ScaleInPlace(DataType::kUint8, small, 2, -1.0);
  EXPECT_EQ(small[0], 0);
}

// Of what lies in memory the operands are fetched ahead: the same as of pieces that are not.
TEST_P(ReduceTest, LongSumsAreThoseOfTheirPieces) {
  const DataType dtype = GetParam();
  const int64_t size = SizeOf(dtype), count = (300 << 10) / size + 3, piece = 4096;
  const Reduction how(dtype, ReduceOp::kSum);
  const std::vector<char> a = RandomBits(random_, count * size), b = RandomBits(random_, count * size);
  std::vector<char> expected(count * size);
  for (int64_t at = 0; at < count; at += piece) {
    RunForm(*ReduceForms()[0], how, {a.data() + at * size, b.data() + at * size}, expected.data() + at * size,
            std::min(piece, count - at));
  }
  for (const ReduceKernels* form : ReduceForms()) {
    std::vector<char> one(count * size), x = a, y = b;
    RunForm(*form, how, {a.data(), b.data()}, one.data(), count);
    char* const both[] = {x.data(), y.data()};
    form->sum.of[static_cast<int>(dtype)]({both, 2, both, 2, count});
    for (int64_t i = 0; i < count * size; i += size) {
      for (const std::vector<char>* out : {&one, &x, &y}) {
        ASSERT_TRUE(Same(dtype, out->data() + i, expected.data() + i)) << form->name << ", element " << i / size;
      }
    }
  }
}

// Streaming stores at any alignment, many operands and pieces with a rest, both factors: all forms as the first one.
TEST_P(ReduceTest, FormsAgree) {
  const DataType dtype = GetParam();
  const int64_t size = SizeOf(dtype), count = 4999;
  const bool scales = dtype > DataType::kInt64;
  std::vector<std::vector<char>> memory;
  for (int i = 0; i < 19; ++i) memory.push_back(RandomBits(random_, count * size + 128));
  for (int operands : {1, 2, 3, 12, 13, 19}) {
    for (ReduceOp op : kOps) {
      for (int shift : {0, 1, 8, 40}) {
        std::vector<const char*> sources;
        for (int i = 0; i < operands; ++i) sources.push_back(memory[i].data() + i % 3 * shift);
        const Reduction how(dtype, op, scales ? 1.0 / 3 : 1, scales && shift > 0 ? 0.3 : 1);
        std::vector<char> first(count * size);
        RunForm(*ReduceForms()[0], how, sources, first.data(), count);
        for (const ReduceKernels* form : ReduceForms()) {
          std::vector<char> out(count * size + 128, 'x');
          RunForm(*form, how, sources, out.data() + shift, count, true);
          for (int64_t i = 0; i < count * size; i += size) {
            ASSERT_TRUE(Same(dtype, out.data() + shift + i, first.data() + i))
                << form->name << " " << Name(op) << " of " << operands << ", element " << i / size;
          }
          for (int64_t i = 0; i < shift; ++i) ASSERT_EQ(out[i], 'x');
          for (int64_t i = shift + count * size; i < count * size + 128; ++i) ASSERT_EQ(out[i], 'x');
        }
      }
    }
  }
}

// Every number with partners of every kind.
TEST(ReduceTest, AllHalvesInAllForms) {
  std::vector<uint16_t> all(65536), out(65536), partner(65536);
  for (int i = 0; i < 65536; ++i) all[i] = static_cast<uint16_t>(i);
  for (DataType dtype : {DataType::kFloat16, DataType::kBfloat16}) {
    const bool bfloat = dtype == DataType::kBfloat16;
    const uint16_t infinity = bfloat ? 0x7f80 : 0x7c00;
    const uint16_t one = bfloat ? 0x3f80 : 0x3c00;
    const std::vector<int> partners = {0,
                                       0x8000,
                                       1,
                                       0x8001,
                                       0x03ff,
                                       0x83ff,
                                       0x0400,
                                       0x007f,
                                       0x0080,
                                       one,
                                       one + 1,
                                       one - 1,
                                       one | 0x8000,
                                       infinity - 1,
                                       infinity,
                                       infinity | 0x8000,
                                       infinity + 1,
                                       0x7fff,
                                       0xffff,
                                       0x3555,
                                       0xb555,
                                       0x1234,
                                       0x6789,
                                       0xfbff};
    for (int other : partners) {
      partner.assign(65536, static_cast<uint16_t>(other));
      for (ReduceOp op : kOps) {
        std::vector<uint16_t> expected(65536);
        for (int i = 0; i < 65536; ++i) {
          Reference({dtype, op}, reinterpret_cast<char*>(&expected[i]), reinterpret_cast<char*>(&all[i]),
                    reinterpret_cast<char*>(&partner[i]));
        }
        for (const ReduceKernels* form : ReduceForms()) {
          RunForm(*form, {dtype, op}, {reinterpret_cast<char*>(all.data()), reinterpret_cast<char*>(partner.data())},
                  reinterpret_cast<char*>(out.data()), 65536);
          for (int i = 0; i < 65536; ++i) {
            ASSERT_TRUE(Same(dtype, reinterpret_cast<char*>(&out[i]), reinterpret_cast<char*>(&expected[i])))
                << form->name << " " << Name(dtype) << " " << Name(op) << " of " << i << " and " << other << ": "
                << out[i] << ", not " << expected[i];
          }
        }
      }
    }
  }
}

TEST(ReduceTest, AllFormsConvertHalves) {
  std::mt19937_64 random(5);
  for (int64_t count : {65536, 65539, 1, 3}) {
    std::vector<uint16_t> halves(count), back(count + 1, 77);
    std::vector<float> singles(count), wide(count + 1, 77);
    for (int64_t i = 0; i < count; ++i) {
      halves[i] = static_cast<uint16_t>(i * 40503);
      const uint32_t bits = static_cast<uint32_t>(random());
      // The range of float16, with ties.
      singles[i] = FloatFromBits(i % 2 == 0 ? ((bits & 0x8fffffff) | 0x30000000) & 0xfffff000 : bits);
    }
    for (DataType dtype : {DataType::kFloat16, DataType::kBfloat16}) {
      const bool bfloat = dtype == DataType::kBfloat16;
      for (const ReduceKernels* form : ReduceForms()) {
        const ReduceKernels::Conversions& conversions = bfloat ? form->bfloat16 : form->float16;
        conversions.widen(wide.data(), halves.data(), count);
        conversions.narrow(back.data(), singles.data(), count);
        for (int64_t i = 0; i < count; ++i) {
          const float widened = bfloat ? FloatFromBfloat16(halves[i]) : FloatFromFloat16(halves[i]);
          const uint16_t narrowed = bfloat ? Bfloat16FromFloat(singles[i]) : Float16FromFloat(singles[i]);
          if (std::isnan(widened)) {
            ASSERT_TRUE(std::isnan(wide[i]));
          } else {
            ASSERT_EQ(BitsFromFloat(wide[i]), BitsFromFloat(widened)) << form->name << " " << halves[i];
          }
          if (std::isnan(singles[i])) {
            ASSERT_TRUE(IsNan(dtype, reinterpret_cast<const char*>(&back[i])));
          } else {
            ASSERT_EQ(back[i], narrowed) << form->name << " " << Name(dtype) << " " << singles[i];
          }
        }
        ASSERT_EQ(wide[count], 77);
        ASSERT_EQ(back[count], 77);
      }
    }
  }
}

TEST(ReduceTest, FormsOfThisCpu) {
  std::string names;
  for (const char* name : {"baseline", "avx2", "avx512"}) {
    bool there = false;
    for (const ReduceKernels* form : ReduceForms()) there = there || form->name == std::string(name);
    if (!there) std::printf("not tested, since this CPU has not got it: %s\n", name);
    names += there ? std::string(" ") + name : "";
  }
  std::printf("tested:%s\n", names.c_str());
  EXPECT_EQ(ReduceForms()[0]->name, std::string("baseline"));
}

TEST(ReduceTest, HalvesConvertExactly) {
  for (int bits = 0; bits < 65536; ++bits) {
    for (bool bfloat : {false, true}) {
      const float value = bfloat ? FloatFromBfloat16(bits) : FloatFromFloat16(bits);
      const uint16_t back = bfloat ? Bfloat16FromFloat(value) : Float16FromFloat(value);
      if (std::isnan(SlowValue(bits, bfloat))) {
        ASSERT_TRUE(std::isnan(value));
        ASSERT_TRUE(std::isnan(SlowValue(back, bfloat)));
      } else {
        ASSERT_EQ(value, SlowValue(bits, bfloat)) << bits;
        ASSERT_EQ(back, bits);
      }
    }
  }
}

TEST(ReduceTest, HalvesRoundToNearestEven) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 2000000; ++i) {
    uint32_t bits = static_cast<uint32_t>(random());
    if (i % 2 == 0) bits = (bits & 0x8fffffff) | 0x30000000;  // the range of float16
    if (i % 3 == 0) bits &= 0xfffff000;                       // ties
    const float value = FloatFromBits(bits);
    if (std::isnan(value)) continue;
    ASSERT_EQ(Float16FromFloat(value), SlowHalf(value, false)) << value;
    ASSERT_EQ(Bfloat16FromFloat(value), SlowHalf(value, true)) << value;
  }
}

// Of all pairs of numbers with something special about them, in both orders.
TEST(ReduceTest, LeastAndGreatestDoNotDependOnTheOrder) {
  const float values[] = {0.0f,
                          -0.0f,
                          1.0f,
                          -1.0f,
                          std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN(),
                          -std::numeric_limits<float>::quiet_NaN(),
                          FloatFromBits(0x7f800001),
                          FloatFromBits(0xffc12345),
                          FloatFromBits(1)};
  for (ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
    for (float a : values) {
      for (float b : values) {
        float one, other;
        Reduce2({DataType::kFloat32, op}, &one, &a, &b, 1);
        Reduce2({DataType::kFloat32, op}, &other, &b, &a, 1);
        EXPECT_EQ(BitsFromFloat(one), BitsFromFloat(other)) << Name(op) << " " << a << " " << b;
        EXPECT_EQ(std::isnan(one), std::isnan(a) || std::isnan(b));
        if (std::isnan(one)) {
          EXPECT_EQ(BitsFromFloat(one), 0xffffffffu);
        }
      }
    }
  }
}

TEST(ReduceTest, TruthValuesAreCombinedByOrAndAnd) {
  // Long enough for every form's vectors.
  constexpr int kCount = 150;
  std::vector<uint8_t> a(kCount), b(kCount);
  for (int i = 0; i < kCount; ++i) {
    a[i] = i % 2;
    b[i] = i / 2 % 2;
  }
  for (ReduceOp op : kOps) {
    const bool is_or = op == ReduceOp::kSum || op == ReduceOp::kMax;
    std::vector<uint8_t> out(kCount, 7);
    Reduce2({DataType::kBool, op}, out.data(), a.data(), b.data(), kCount);
    for (int i = 0; i < kCount; ++i) EXPECT_EQ(out[i], is_or ? a[i] | b[i] : a[i] & b[i]) << Name(op) << " " << i;
  }
}

TEST(ReduceTest, WhatCannotBeCombinedIsKnown) {
  EXPECT_FALSE(CanReduce(static_cast<DataType>(11)));
  EXPECT_FALSE(CanReduce({DataType::kFloat32, ReduceOp::kAverage}));
  EXPECT_FALSE(CanReduce({DataType::kFloat32, ReduceOp::kAdasum}));
  for (DataType dtype : kTypes) EXPECT_TRUE(CanReduce(dtype));
}

}  // namespace
}  // namespace farandole::worker::arithmetic
