#include "worker/kernels/move.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "proto/types.h"
#include "worker/arithmetic/integer_average.h"
#include "worker/arithmetic/reduce.h"
#include "worker/arithmetic/reduction.h"

namespace farandole::worker::kernels {
namespace {

struct Kernel {
  std::string name;
  DataType from, to;
  void (*move)(const MovePiece* table, int32_t pieces, int64_t elements, int64_t chunk, const Share& share);

  // The type in which it scales: the narrower one.
  DataType type() const { return SizeOf(from) < SizeOf(to) ? from : to; }
  bool casts() const { return from != to; }
};

std::vector<Kernel> Kernels() {
#define FARANDOLE_KERNEL_OF(name, from, to, Kind) {#name, DataType::from, DataType::to, &Move<Kind>},
  return {FARANDOLE_MOVE_KERNELS(FARANDOLE_KERNEL_OF)};
#undef FARANDOLE_KERNEL_OF
}

using Bytes = std::vector<char>;

uint64_t AddressOf(const void* memory) { return reinterpret_cast<uint64_t>(memory); }

// As a device would, whose lanes are here one after the other.
void Launch(const Kernel& kernel, const std::vector<MovePiece>& table, int64_t groups = 3, int64_t lanes = 32,
            int64_t chunk = 128) {
  const int64_t elements = table.empty() ? 0 : table.back().end;
  for (int64_t group = 0; group < groups; ++group) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      kernel.move(table.data(), static_cast<int32_t>(table.size()), elements, chunk, {group, groups, lane, lanes});
    }
  }
}

// All values of small types. Of others those at the edges, and random bits, among them NaN and denormals.
Bytes Values(DataType dtype) {
  const auto size = static_cast<size_t>(SizeOf(dtype));
  std::vector<uint64_t> bits;
  if (dtype == DataType::kBool) return {0, 1, 1, 0};
  if (size <= 2) {
    for (uint64_t i = 0; i < (uint64_t{1} << 8 * size); ++i) bits.push_back(i);
  } else {
    const uint64_t top = uint64_t{1} << (8 * size - 1);
    const uint64_t infinity = size == 4 ? 0x7f800000 : uint64_t{0x7ff} << 52;
    const uint64_t one = size == 4 ? 0x3f800000 : uint64_t{0x3ff} << 52;
    for (uint64_t magnitude : {uint64_t{0}, uint64_t{1}, uint64_t{0x7fff}, uint64_t{0x8000}, uint64_t{0xffff}, one - 1,
                               one, infinity - 1, infinity, infinity + 1, infinity | infinity >> 1, top - 1}) {
      bits.push_back(magnitude);
      bits.push_back(magnitude | top);
    }
    std::mt19937_64 random(7);
    for (int i = 0; i < 2000; ++i) bits.push_back(random());
    // Numbers of moderate size, whose products neither overflow nor vanish.
    for (int i = 0; i < 2000; ++i) bits.push_back(one + (random() % (one / 4)));
    for (int i = 0; i < 100; ++i) bits.push_back(random() % 1000);
  }
  Bytes values;
  for (uint64_t b : bits) values.insert(values.end(), reinterpret_cast<char*>(&b), reinterpret_cast<char*>(&b) + size);
  return values;
}

Bytes Cast(DataType from, DataType to, const Bytes& in) {
  if (from == to) return in;
  Bytes out;
  for (size_t at = 0; at < in.size(); at += static_cast<size_t>(SizeOf(from))) {
    int32_t value = 0;
    std::memcpy(&value, &in[at], static_cast<size_t>(SizeOf(from)));
    if (from == DataType::kInt16) value = static_cast<int16_t>(value);
    out.insert(out.end(), reinterpret_cast<char*>(&value), reinterpret_cast<char*>(&value) + SizeOf(to));
  }
  return out;
}

// What worker/arithmetic makes of `in`.
Bytes Expected(const Kernel& kernel, const Bytes& in, double factor, double mean, int divisor) {
  const DataType type = kernel.type();
  Bytes values = Cast(kernel.from, type, in);
  const int64_t count = static_cast<int64_t>(values.size()) / SizeOf(type);
  if (arithmetic::IsInteger(type)) {
    if (factor != 1 || divisor != 1) {
      arithmetic::AverageIntegers(type, values.data(), values.data(), count, factor, divisor);
    }
  } else if (type != DataType::kBool) {
    arithmetic::ScaleResult({type, ReduceOp::kSum, 1, factor, mean}, values.data(), count);
  }
  return Cast(type, kernel.to, values);
}

MovePiece Piece(const void* from, void* to, int64_t end, double factor = 1, double mean = 1, int32_t divisor = 1) {
  return {AddressOf(from), AddressOf(to), end, factor, mean, divisor, 0};
}

class MoveTest : public testing::TestWithParam<Kernel> {
 protected:
  const Kernel kernel_ = GetParam();
  const size_t in_size_ = static_cast<size_t>(SizeOf(kernel_.from));
  const size_t out_size_ = static_cast<size_t>(SizeOf(kernel_.to));
  const Bytes values_ = Values(kernel_.from);
  const int64_t count_ = static_cast<int64_t>(values_.size() / in_size_);

  Bytes Moved(double factor, double mean, int32_t divisor) {
    Bytes out(static_cast<size_t>(count_) * out_size_, 'x');
    Launch(kernel_, {Piece(values_.data(), out.data(), count_, factor, mean, divisor)});
    return out;
  }
};

INSTANTIATE_TEST_SUITE_P(Kernels, MoveTest, testing::ValuesIn(Kernels()),
                         [](const testing::TestParamInfo<Kernel>& info) { return info.param.name; });

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Not 1, but in float32.
const double kNearOne = 1 + std::ldexp(1, -40);

TEST_P(MoveTest, GivesTheNumbersOfArithmetic) {
  for (double factor : {1.0, 0.5, 1.0 / 3, -2.0, 0.0, 3e-6, 1e30, 1e-310, kInfinity, kNan, kNearOne}) {
    for (double mean : {1.0, 0.25, 1.0 / 3, 1.0 / 7, 1e-45, kNearOne}) {
      EXPECT_EQ(Moved(factor, mean, 1), Expected(kernel_, values_, factor, mean, 1)) << factor << " " << mean;
    }
    for (int divisor : {2, 7, 49, std::numeric_limits<int>::max()}) {
      if (!arithmetic::IsInteger(kernel_.type())) continue;
      EXPECT_EQ(Moved(factor, 1, divisor), Expected(kernel_, values_, factor, 1, divisor)) << factor << " " << divisor;
    }
  }
}

TEST_P(MoveTest, ScalesAsBeforeACollective) {
  if (kernel_.from == DataType::kBool || kernel_.casts()) return;
  for (double factor : {0.5, 1.0 / 3, -2.0, 3e-6, 1e30, kNan, kNearOne}) {
    Bytes expected(values_.size());
    arithmetic::ScaleCopy(kernel_.from, expected.data(), values_.data(), count_, factor);
    EXPECT_EQ(Moved(factor, 1, 1), expected) << factor;
  }
}

TEST_P(MoveTest, CopiesEveryBit) { EXPECT_EQ(Moved(1, 1, 1), Cast(kernel_.from, kernel_.to, values_)); }

TEST_P(MoveTest, WorksInPlace) {
  if (kernel_.casts()) return;
  Bytes memory = values_;
  Launch(kernel_, {Piece(memory.data(), memory.data(), count_, 3)});
  EXPECT_EQ(memory, Expected(kernel_, values_, 3, 1, 1));
}

// Every pair of alignments, counts from less than a vector to several of each lane; nothing is written beside them.
TEST_P(MoveTest, TakesAnyAddress) {
  Bytes from(6000), out(12000), expected(12000);
  for (size_t i = 0; i < from.size(); ++i) from[i] = kernel_.from == DataType::kBool ? i % 2 : static_cast<char>(i * 7);
  for (int64_t count : {1, 2, 15, 40, 700}) {
    for (size_t in_at = 0; in_at < 17; ++in_at) {
      for (size_t out_at = 0; out_at < 17; ++out_at) {
        const double factor = (in_at + out_at) % 3 == 0 ? 0.5 : 1;
        const auto begin = from.begin() + static_cast<int64_t>(in_at);
        const Bytes in(begin, begin + count * static_cast<int64_t>(in_size_));
        const Bytes moved = Expected(kernel_, in, factor, 1, 1);
        std::fill(expected.begin(), expected.end(), 'x');
        std::copy(moved.begin(), moved.end(), expected.begin() + static_cast<int64_t>(out_at));
        std::fill(out.begin(), out.end(), 'x');
        Launch(kernel_, {Piece(&from[in_at], &out[out_at], count, factor)}, 2, 4, 250);
        ASSERT_EQ(out, expected) << in_at << " to " << out_at << ", " << count;
        // Zeros, from nowhere.
        std::fill(out.begin(), out.end(), 'x');
        std::fill(expected.begin(), expected.end(), 'x');
        std::fill_n(expected.begin() + static_cast<int64_t>(out_at), moved.size(), 0);
        Launch(kernel_, {Piece(nullptr, &out[out_at], count, factor)}, 2, 4, 250);
        ASSERT_EQ(out, expected) << "zeros to " << out_at << ", " << count;
      }
    }
  }
}

// Tables whose elements would be seen to be left out, or taken twice: each is tripled where it lies. Between the pieces
// lie elements of none.
class TableTest : public testing::Test {
 protected:
  static constexpr int64_t kGap = 3;

  void Add(int64_t count, bool zeros = false) {
    counts_.push_back(count);
    zeros_.push_back(zeros);
  }

  void ExpectMoved(int64_t groups, int64_t lanes, int64_t chunk) {
    int64_t length = kGap;
    for (int64_t count : counts_) length += count + kGap;
    std::vector<int32_t> memory(static_cast<size_t>(length)), expected;
    for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<int32_t>(i) + 1;
    expected = memory;
    std::vector<MovePiece> table;
    int64_t at = kGap;
    int64_t end = 0;
    for (size_t i = 0; i < counts_.size(); ++i) {
      end += counts_[i];
      int32_t* const to = &memory[static_cast<size_t>(at)];
      table.push_back(Piece(zeros_[i] ? nullptr : to, to, end, 3));
      for (int64_t k = at; k < at + counts_[i]; ++k) expected[static_cast<size_t>(k)] *= zeros_[i] ? 0 : 3;
      at += counts_[i] + kGap;
    }
    for (const Kernel& kernel : Kernels()) {
      if (kernel.name == "move_int32") Launch(kernel, table, groups, lanes, chunk);
    }
    EXPECT_TRUE(memory == expected) << groups << " groups of " << lanes << " lanes, chunks of " << chunk;
  }

  void ExpectMoved() {
    for (int64_t groups : {1, 2, 64}) {
      for (int64_t lanes : {1, 32}) {
        for (int64_t chunk : {1, 7, 128, 4096}) ExpectMoved(groups, lanes, chunk);
      }
    }
  }

  std::vector<int64_t> counts_;
  std::vector<bool> zeros_;
};

TEST_F(TableTest, Empty) { ExpectMoved(); }

TEST_F(TableTest, OnlyEmptyPieces) {
  for (int i = 0; i < 3; ++i) Add(0);
  ExpectMoved();
}

TEST_F(TableTest, HundredsOfTinyPieces) {
  for (int i = 0; i < 700; ++i) Add(i * 5 % 14, i % 11 == 0);
  ExpectMoved();
}

TEST_F(TableTest, EmptyPiecesAnywhere) {
  for (int64_t count : {0, 0, 5, 0, 128, 0, 0, 1, 0}) Add(count);
  ExpectMoved();
}

TEST_F(TableTest, OneHugePieceAmongSmallOnes) {
  Add(3);
  Add(1000003);
  Add(1, true);
  Add(130);
  for (int64_t chunk : {128, 4096}) ExpectMoved(64, 32, chunk);
  ExpectMoved(1, 1, 1 << 20);
}

// A table may be moved in part.
TEST_F(TableTest, TheFirstElementsAlone) {
  std::vector<int64_t> memory(20, 1);
  const std::vector<MovePiece> table = {Piece(&memory[0], &memory[0], 10, 3), Piece(&memory[10], &memory[10], 20, 3)};
  Move<Integers<int64_t>>(table.data(), 2, 13, 4, {0, 1, 0, 1});
  for (size_t i = 0; i < memory.size(); ++i) EXPECT_EQ(memory[i], i < 13 ? 3 : 1) << i;
}

TEST(PieceAt, IsTheFirstThatEndsBehind) {
  std::vector<MovePiece> table;
  for (int64_t end : {0, 3, 3, 3, 8, 8}) table.push_back(Piece(nullptr, nullptr, end));
  std::vector<int32_t> found;
  for (int64_t position = 0; position < 10; ++position) found.push_back(PieceAt(table.data(), 6, position));
  EXPECT_EQ(found, (std::vector<int32_t>{1, 1, 1, 4, 4, 4, 4, 4, 6, 6}));
}

}  // namespace
}  // namespace farandole::worker::kernels
