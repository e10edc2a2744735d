#include "worker/nccl/lowering.h"

#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace farandole::worker::nccl {
namespace {

using arithmetic::Reduction;
using collective::Piece;
using collective::Scale;

TEST(LoweringTest, FactorsOfASumAreNcclsOwn) {
  const Lowering plain = Lower({DataType::kFloat32}, {}, 2, 4, 16);
  EXPECT_EQ(plain.operand_factor, 1);
  EXPECT_FALSE(plain.Moves(DataType::kFloat32));
  const Lowering average = Lower({DataType::kBfloat16, ReduceOp::kSum, 2, -2, 0.125}, {}, 2, 8, 16);
  EXPECT_EQ(average.type, DataType::kBfloat16);
  EXPECT_EQ(average.op, cuda::ncclSum);
  EXPECT_EQ(average.operand_factor, -0.5);
  EXPECT_FALSE(average.Moves(DataType::kBfloat16));
}

// NCCL does not round products, as only those of powers of two need not be; the last ones are beyond bfloat16.
TEST(LoweringTest, FactorsThatNcclMultipliesOtherwiseAreOurs) {
  for (const double factor : {1.0 / 3, 1.5, 0.0, 0x1p-140, 0x1p128}) {
    const Lowering lowering = Lower({DataType::kBfloat16, ReduceOp::kSum, 1, factor}, {}, 2, 3, 16);
    EXPECT_EQ(lowering.operand_factor, 1);
    ASSERT_EQ(lowering.before.size(), 2u);
    EXPECT_EQ(lowering.before[1].factor, factor);
    EXPECT_TRUE(lowering.after.empty());
  }
  EXPECT_EQ(Lower({DataType::kFloat16, ReduceOp::kSum, 1, 1, 0.5}, {}, 1, 2, 16).before.size(), 1u) << "subnormals";
  EXPECT_FALSE(Lower({DataType::kFloat16}, {}, 1, 2, 16).Moves(DataType::kFloat16));
  EXPECT_EQ(Lower({DataType::kBfloat16, ReduceOp::kSum, 1, 1, 0.125}, {}, 1, 8, 16).operand_factor, 0.125);
  for (const DataType dtype : {DataType::kFloat32, DataType::kFloat64}) {
    EXPECT_EQ(Lower({dtype, ReduceOp::kSum, 1, 1, 1.0 / 3}, {}, 1, 3, 16).operand_factor, 1);
    EXPECT_EQ(Lower({dtype, ReduceOp::kSum, 1, 1, 0.25}, {}, 1, 4, 16).operand_factor, 0.25);
  }
}

// Switches add up plain sums only.
TEST(LoweringTest, FactorsOfLargeSumsAreOurs) {
  const Reduction average{DataType::kFloat32, ReduceOp::kSum, 1, 1, 0.125};
  EXPECT_EQ(Lower(average, {}, 2, 8, kFactorBytesMax).operand_factor, 0.125);
  const Lowering large = Lower(average, {}, 2, 8, kFactorBytesMax + 1);
  EXPECT_EQ(large.operand_factor, 1);
  ASSERT_EQ(large.before.size(), 2u);
  EXPECT_EQ(large.before[1].factor, 0.125);
  EXPECT_TRUE(large.after.empty());
  EXPECT_FALSE(Lower({DataType::kFloat32}, {}, 2, 8, kFactorBytesMax + 1).Moves(DataType::kFloat32));
}

TEST(LoweringTest, FactorsOfOtherCombinationsAreOurs) {
  EXPECT_FALSE(Lower({DataType::kFloat64, ReduceOp::kMax}, {}, 1, 4, 16).Moves(DataType::kFloat64));
  const Lowering scaled = Lower({DataType::kFloat64, ReduceOp::kMin, 2, 3}, {}, 2, 4, 16);
  EXPECT_EQ(scaled.op, cuda::ncclMin);
  EXPECT_EQ(scaled.operand_factor, 1);
  ASSERT_EQ(scaled.before.size(), 2u);
  EXPECT_EQ(scaled.before[1].factor, 2);
  ASSERT_EQ(scaled.after.size(), 2u);
  EXPECT_EQ(scaled.after[1].factor, 3);
  EXPECT_EQ(scaled.after[1].mean, 1);
  EXPECT_TRUE(scaled.Moves(DataType::kFloat64));
  EXPECT_EQ(Lower({DataType::kFloat64, ReduceOp::kProduct}, {}, 1, 4, 16).op, cuda::ncclProd);
}

TEST(LoweringTest, TensorsOfDifferentFactorsHaveTheirOwn) {
  const std::vector<Scale> scales = {{ReduceOp::kSum, 2, 1}, {ReduceOp::kAverage, 1, 5}};
  const Lowering floats = Lower({DataType::kFloat32}, scales, 2, 4, 16);
  EXPECT_EQ(floats.operand_factor, 1);
  EXPECT_EQ(floats.before[0].factor, 2);
  EXPECT_TRUE(floats.before[1].none());
  EXPECT_TRUE(floats.after[0].none());
  EXPECT_EQ(floats.after[1].factor, 5);
  EXPECT_EQ(floats.after[1].mean, 0.25);
  EXPECT_EQ(floats.after[1].divisor, 1);
}

TEST(LoweringTest, IntegersAreDividedInTheEnd) {
  EXPECT_FALSE(Lower({DataType::kInt64}, {{ReduceOp::kSum, 1, 1}}, 1, 3, 16).Moves(DataType::kInt64));
  const Lowering average = Lower({DataType::kInt64}, {{ReduceOp::kAverage, 1, 1}}, 1, 3, 16);
  EXPECT_TRUE(average.before.empty());
  EXPECT_EQ(average.after[0].divisor, 3);
  EXPECT_EQ(average.after[0].mean, 1);
}

TEST(LoweringTest, WhatNcclLacksIsCarriedByAnotherType) {
  for (const DataType dtype : {DataType::kInt16, DataType::kUint16}) {
    const Lowering lowering = Lower({dtype}, {{ReduceOp::kSum, 1, 1}}, 1, 3, 16);
    EXPECT_EQ(lowering.type, DataType::kInt32);
    EXPECT_TRUE(lowering.Moves(dtype));
  }
}

TEST(LoweringTest, TruthValuesAreOrAndAnd) {
  EXPECT_EQ(Lower({DataType::kBool, ReduceOp::kSum}, {}, 1, 3, 16).op, cuda::ncclMax);
  EXPECT_EQ(Lower({DataType::kBool, ReduceOp::kMax}, {}, 1, 3, 16).op, cuda::ncclMax);
  EXPECT_EQ(Lower({DataType::kBool, ReduceOp::kProduct}, {}, 1, 3, 16).op, cuda::ncclMin);
  EXPECT_EQ(Lower({DataType::kBool, ReduceOp::kMin}, {}, 1, 3, 16).op, cuda::ncclMin);
  EXPECT_EQ(NcclType(DataType::kBool), cuda::ncclUint8);
}

// Lengths in elements, at no address.
std::vector<collective::Piece> Pieces(const std::vector<int64_t>& counts) {
  std::vector<collective::Piece> pieces;
  for (const int64_t count : counts) pieces.push_back({nullptr, nullptr, count});
  return pieces;
}

// Of each tensor the run, and where it begins there.
std::vector<std::pair<int, int64_t>> SpotsOf(const Layout& layout) {
  std::vector<std::pair<int, int64_t>> spots;
  for (const Layout::Spot& spot : layout.spots) spots.emplace_back(spot.run, spot.begin);
  return spots;
}

TEST(LayoutTest, TensorsThatFill16BytesAreARun) {
  const Layout layout = LayOut(DataType::kFloat32, Pieces({4, 0, 8, 12}));
  EXPECT_EQ(SpotsOf(layout), (std::vector<std::pair<int, int64_t>>{{0, 0}, {0, 16}, {0, 16}, {0, 48}}));
  EXPECT_EQ(layout.runs[Layout::kWhole].count, 24);
  EXPECT_EQ(layout.runs[Layout::kOdd].count, 0);
  EXPECT_EQ(layout.bytes(), 96);
}

TEST(LayoutTest, OthersAreOneOfTheirOwn) {
  const Layout layout = LayOut(DataType::kFloat16, Pieces({5, 8, 1, 0, 16, 9}));
  EXPECT_EQ(SpotsOf(layout),
            (std::vector<std::pair<int, int64_t>>{{1, 0}, {0, 0}, {1, 10}, {0, 16}, {0, 16}, {1, 12}}));
  EXPECT_EQ(layout.runs[Layout::kWhole].count, 24);
  EXPECT_EQ(layout.runs[Layout::kWhole].bytes, 48);
  EXPECT_EQ(layout.runs[Layout::kOdd].count, 15);
  EXPECT_EQ(layout.bytes(), 78);
}

TEST(LayoutTest, OfNothingIsEmpty) {
  EXPECT_EQ(LayOut(DataType::kFloat64, {}).bytes(), 0);
  EXPECT_EQ(LayOut(DataType::kFloat64, Pieces({0, 0})).bytes(), 0);
}

TEST(LayoutTest, InABufferTheOddOnesAreBehind) {
  char buffer[96];
  const Layout layout = LayOut(DataType::kFloat32, Pieces({5, 4}));
  const Bases bases = BasesAt(layout, buffer);
  EXPECT_EQ(SpotAt(bases, layout.spots[1]), buffer);
  EXPECT_EQ(SpotAt(bases, layout.spots[0]), buffer + 16);
}

class LaidTest : public testing::Test {
 protected:
  static Laid Of(const std::vector<collective::Piece>& pieces) {
    return FindLaid(LayOut(DataType::kFloat32, pieces), pieces);
  }
  static bool Apart(const std::vector<collective::Piece>& pieces) {
    const Layout layout = LayOut(DataType::kFloat32, pieces);
    return InputsAreApart(DataType::kFloat32, layout, pieces, FindLaid(layout, pieces).output.value());
  }
  static char* At(float* address) { return reinterpret_cast<char*>(address); }

  float in_[24] = {};
  float out_[24] = {};
};

TEST_F(LaidTest, TensorsAtTheirPlacesAreFound) {
  const Laid laid = Of({{in_, out_, 4}, {nullptr, nullptr, 0}, {in_ + 4, out_ + 4, 8}});
  EXPECT_EQ(laid.input.value(), (Bases{At(in_), nullptr}));
  EXPECT_EQ(laid.output.value(), (Bases{At(out_), nullptr}));
  EXPECT_EQ(Of({{in_, in_, 6}}).output.value(), (Bases{nullptr, At(in_)}));
}

TEST_F(LaidTest, TheTwoRunsMayBeAnywhere) {
  const std::vector<collective::Piece> pieces = {
      {in_ + 12, out_, 5}, {in_, out_ + 8, 4}, {in_ + 17, out_ + 5, 3}, {in_ + 4, out_ + 12, 4}};
  const Laid laid = Of(pieces);
  EXPECT_EQ(laid.input.value(), (Bases{At(in_), At(in_ + 12)}));
  EXPECT_EQ(laid.output.value(), (Bases{At(out_ + 8), At(out_)}));
}

TEST_F(LaidTest, OthersAreNot) {
  const Laid gap_before = Of({{in_, out_, 4}, {in_ + 5, out_ + 4, 4}});
  EXPECT_FALSE(gap_before.input.has_value());
  EXPECT_EQ(gap_before.output.value(), (Bases{At(out_), nullptr}));
  const Laid gap_after = Of({{in_, out_, 4}, {in_ + 4, out_ + 5, 4}});
  EXPECT_EQ(gap_after.input.value(), (Bases{At(in_), nullptr}));
  EXPECT_FALSE(gap_after.output.has_value());
  EXPECT_FALSE(Of({{in_, out_, 2}, {in_ + 4, out_ + 4, 2}}).input.has_value()) << "odd ones have no gaps";
  EXPECT_FALSE(Of({{in_, out_, 4}, {in_ + 4, out_ + 4, 2}, {in_ + 6, out_ + 6, 4}}).input.has_value())
      << "an odd one is in between";
  EXPECT_FALSE(Of({{in_, out_, 4}, {in_ + 8, out_ + 4, 4}, {in_ + 8, out_ + 8, 4}}).input.has_value())
      << "a gap is not forgotten";
  EXPECT_FALSE(Of({{in_, out_, 4}, {nullptr, nullptr, 4}}).input.has_value()) << "zeros";
  EXPECT_FALSE(Of({{nullptr, out_, 4}, {in_, out_ + 4, 4}}).input.has_value()) << "zeros at first";
  EXPECT_TRUE(Of({{nullptr, out_, 4}, {in_, out_ + 4, 4}}).output.has_value());
  EXPECT_FALSE(Of({{in_, nullptr, 2}}).output.has_value()) << "no result is wanted";
  EXPECT_FALSE(Of({{in_, out_, 8}, {in_ + 8, out_, 5}}).output.has_value()) << "the same memory twice";
  EXPECT_FALSE(Of({{in_, out_ + 4, 8}, {in_ + 8, out_, 5}}).output.has_value()) << "partly";
  EXPECT_TRUE(Of({{in_, out_ + 5, 8}, {in_ + 8, out_, 5}}).output.has_value()) << "side by side";
}

TEST_F(LaidTest, InputsThatLieAmongTheOutputsOfOthersAreNotMoved) {
  float* const at = out_ + 4;
  EXPECT_TRUE(Apart({{in_, at, 4}, {in_ + 4, at + 4, 8}}));
  EXPECT_TRUE(Apart({{at, at, 4}, {in_, at + 4, 8}})) << "at its own";
  EXPECT_TRUE(Apart({{out_, at, 4}, {at + 8, at + 4, 4}})) << "just before, and just behind";
  EXPECT_TRUE(Apart({{nullptr, at, 4}})) << "zeros";
  EXPECT_FALSE(Apart({{at + 4, at, 4}, {at, at + 4, 4}}));
  EXPECT_FALSE(Apart({{at - 1, at, 4}})) << "begins before";
  EXPECT_FALSE(Apart({{at + 3, at, 4}})) << "ends behind";
  EXPECT_FALSE(Apart({{at + 4, at, 4}, {in_, at + 4, 3}})) << "among the odd ones";
  EXPECT_FALSE(Apart({{in_, at, 4}, {at + 2, at + 4, 3}})) << "an odd one among the others";
  EXPECT_FALSE(Apart({{at + 4, at, 4}, {at + 8, at + 4, 4}})) << "all in a row, and shifted";
}

}  // namespace
}  // namespace farandole::worker::nccl
