#include "worker/nccl/lowering.h"

#include <vector>

#include "gtest/gtest.h"

namespace farandole::worker::nccl {
namespace {

using arithmetic::Reduction;
using collective::Piece;
using collective::Scale;

TEST(LoweringTest, FactorsOfASumAreNcclsOwn) {
  const Lowering plain = Lower({DataType::kFloat32}, {}, 2, 4);
  EXPECT_EQ(plain.operand_factor, 1);
  EXPECT_FALSE(plain.Moves(DataType::kFloat32));
  const Lowering average = Lower({DataType::kBfloat16, ReduceOp::kSum, 2, -2, 0.125}, {}, 2, 8);
  EXPECT_EQ(average.type, DataType::kBfloat16);
  EXPECT_EQ(average.op, cuda::ncclSum);
  EXPECT_EQ(average.operand_factor, -0.5);
  EXPECT_FALSE(average.Moves(DataType::kBfloat16));
}

// NCCL does not round products, as only those of powers of two need not be; the last ones are beyond bfloat16.
TEST(LoweringTest, FactorsThatNcclMultipliesOtherwiseAreOurs) {
  for (const double factor : {1.0 / 3, 1.5, 0.0, 0x1p-140, 0x1p128}) {
    const Lowering lowering = Lower({DataType::kBfloat16, ReduceOp::kSum, 1, factor}, {}, 2, 3);
    EXPECT_EQ(lowering.operand_factor, 1);
    ASSERT_EQ(lowering.before.size(), 2u);
    EXPECT_EQ(lowering.before[1].factor, factor);
    EXPECT_TRUE(lowering.after.empty());
  }
  EXPECT_EQ(Lower({DataType::kFloat16, ReduceOp::kSum, 1, 1, 0.5}, {}, 1, 2).before.size(), 1u) << "subnormals";
  EXPECT_FALSE(Lower({DataType::kFloat16}, {}, 1, 2).Moves(DataType::kFloat16));
  EXPECT_EQ(Lower({DataType::kBfloat16, ReduceOp::kSum, 1, 1, 0.125}, {}, 1, 8).operand_factor, 0.125);
  for (const DataType dtype : {DataType::kFloat32, DataType::kFloat64}) {
    EXPECT_EQ(Lower({dtype, ReduceOp::kSum, 1, 1, 1.0 / 3}, {}, 1, 3).operand_factor, 1);
    EXPECT_EQ(Lower({dtype, ReduceOp::kSum, 1, 1, 0.25}, {}, 1, 4).operand_factor, 0.25);
  }
}

TEST(LoweringTest, FactorsOfOtherCombinationsAreOurs) {
  EXPECT_FALSE(Lower({DataType::kFloat64, ReduceOp::kMax}, {}, 1, 4).Moves(DataType::kFloat64));
  const Lowering scaled = Lower({DataType::kFloat64, ReduceOp::kMin, 2, 3}, {}, 2, 4);
  EXPECT_EQ(scaled.op, cuda::ncclMin);
  EXPECT_EQ(scaled.operand_factor, 1);
  ASSERT_EQ(scaled.before.size(), 2u);
  EXPECT_EQ(scaled.before[1].factor, 2);
  ASSERT_EQ(scaled.after.size(), 2u);
  EXPECT_EQ(scaled.after[1].factor, 3);
  EXPECT_EQ(scaled.after[1].mean, 1);
  EXPECT_TRUE(scaled.Moves(DataType::kFloat64));
  EXPECT_EQ(Lower({DataType::kFloat64, ReduceOp::kProduct}, {}, 1, 4).op, cuda::ncclProd);
}

TEST(LoweringTest, TensorsOfDifferentFactorsHaveTheirOwn) {
  const std::vector<Scale> scales = {{ReduceOp::kSum, 2, 1}, {ReduceOp::kAverage, 1, 5}};
  const Lowering floats = Lower({DataType::kFloat32}, scales, 2, 4);
  EXPECT_EQ(floats.operand_factor, 1);
  EXPECT_EQ(floats.before[0].factor, 2);
  EXPECT_TRUE(floats.before[1].none());
  EXPECT_TRUE(floats.after[0].none());
  EXPECT_EQ(floats.after[1].factor, 5);
  EXPECT_EQ(floats.after[1].mean, 0.25);
  EXPECT_EQ(floats.after[1].divisor, 1);
}

TEST(LoweringTest, IntegersAreDividedInTheEnd) {
  EXPECT_FALSE(Lower({DataType::kInt64}, {{ReduceOp::kSum, 1, 1}}, 1, 3).Moves(DataType::kInt64));
  const Lowering average = Lower({DataType::kInt64}, {{ReduceOp::kAverage, 1, 1}}, 1, 3);
  EXPECT_TRUE(average.before.empty());
  EXPECT_EQ(average.after[0].divisor, 3);
  EXPECT_EQ(average.after[0].mean, 1);
}

TEST(LoweringTest, WhatNcclLacksIsCarriedByAnotherType) {
  for (const DataType dtype : {DataType::kInt16, DataType::kUint16}) {
    const Lowering lowering = Lower({dtype}, {{ReduceOp::kSum, 1, 1}}, 1, 3);
    EXPECT_EQ(lowering.type, DataType::kInt32);
    EXPECT_TRUE(lowering.Moves(dtype));
  }
}

TEST(LoweringTest, TruthValuesAreOrAndAnd) {
  EXPECT_EQ(Lower({DataType::kBool, ReduceOp::kSum}, {}, 1, 3).op, cuda::ncclMax);
  EXPECT_EQ(Lower({DataType::kBool, ReduceOp::kMax}, {}, 1, 3).op, cuda::ncclMax);
  EXPECT_EQ(Lower({DataType::kBool, ReduceOp::kProduct}, {}, 1, 3).op, cuda::ncclMin);
  EXPECT_EQ(Lower({DataType::kBool, ReduceOp::kMin}, {}, 1, 3).op, cuda::ncclMin);
  EXPECT_EQ(NcclType(DataType::kBool), cuda::ncclUint8);
}

// Lengths in elements, at no address.
std::vector<collective::Piece> Pieces(const std::vector<int64_t>& counts) {
  std::vector<collective::Piece> pieces;
  for (const int64_t count : counts) pieces.push_back({nullptr, nullptr, count});
  return pieces;
}

TEST(LayoutTest, TensorsThatFill16BytesAreOneCall) {
  const Layout layout = LayOut(DataType::kFloat32, Pieces({4, 0, 8, 3}));
  EXPECT_EQ(layout.begins, (std::vector<int64_t>{0, 16, 16, 48}));
  EXPECT_EQ(layout.bytes, 60);
  ASSERT_EQ(layout.calls.size(), 1u);
  EXPECT_EQ(layout.calls[0].begin, 0);
  EXPECT_EQ(layout.calls[0].count, 15);
}

TEST(LayoutTest, OthersEndACall) {
  const Layout layout = LayOut(DataType::kFloat16, Pieces({0, 5, 0, 8, 9, 0}));
  EXPECT_EQ(layout.begins, (std::vector<int64_t>{0, 0, 16, 16, 32, 64}));
  EXPECT_EQ(layout.bytes, 50);
  ASSERT_EQ(layout.calls.size(), 2u);
  EXPECT_EQ(layout.calls[0].begin, 0);
  EXPECT_EQ(layout.calls[0].count, 5);
  EXPECT_EQ(layout.calls[1].begin, 16);
  EXPECT_EQ(layout.calls[1].count, 17);
}

TEST(LayoutTest, OfNothingIsEmpty) {
  EXPECT_EQ(LayOut(DataType::kFloat64, {}).bytes, 0);
  EXPECT_EQ(LayOut(DataType::kFloat64, Pieces({0, 0})).bytes, 0);
  EXPECT_TRUE(LayOut(DataType::kFloat64, Pieces({0, 0})).calls.empty());
}

class LaidTest : public testing::Test {
 protected:
  static Laid Of(const std::vector<collective::Piece>& pieces) {
    return FindLaid(LayOut(DataType::kFloat32, pieces), pieces);
  }
  static bool Apart(const std::vector<collective::Piece>& pieces, const void* output) {
    return InputsAreApart(DataType::kFloat32, LayOut(DataType::kFloat32, pieces), pieces, output);
  }

  float in_[16] = {};
  float out_[16] = {};
};

TEST_F(LaidTest, TensorsAtTheirPlacesAreFound) {
  const Laid laid = Of({{in_, out_, 4}, {nullptr, nullptr, 0}, {in_ + 4, out_ + 4, 2}, {in_ + 8, out_ + 8, 1}});
  EXPECT_EQ(laid.input, in_);
  EXPECT_EQ(laid.output, out_);
  EXPECT_EQ(Of({{in_, in_, 6}}).output, in_);
}

TEST_F(LaidTest, OthersAreNot) {
  const Laid gap_before = Of({{in_, out_, 4}, {in_ + 5, out_ + 4, 2}});
  EXPECT_EQ(gap_before.input, nullptr);
  EXPECT_EQ(gap_before.output, out_);
  const Laid gap_after = Of({{in_, out_, 4}, {in_ + 4, out_ + 5, 2}});
  EXPECT_EQ(gap_after.input, in_);
  EXPECT_EQ(gap_after.output, nullptr);
  EXPECT_EQ(Of({{in_, out_, 2}, {in_ + 2, out_ + 4, 2}}).input, nullptr) << "not at 16 bytes";
  EXPECT_EQ(Of({{in_, out_, 4}, {in_ + 8, out_ + 4, 4}, {in_ + 8, out_ + 8, 4}}).input, nullptr)
      << "a gap is not forgotten";
  EXPECT_EQ(Of({{in_, out_, 4}, {nullptr, nullptr, 4}}).input, nullptr) << "zeros";
  EXPECT_EQ(Of({{nullptr, out_, 4}, {in_, out_ + 4, 2}}).input, nullptr) << "zeros at first";
  EXPECT_EQ(Of({{nullptr, out_, 4}, {in_, out_ + 4, 2}}).output, out_);
  EXPECT_EQ(Of({{in_, nullptr, 2}}).output, nullptr) << "no result is wanted";
  EXPECT_EQ(Of({}).input, nullptr) << "nothing";
}

TEST_F(LaidTest, InputsThatLieAmongTheOutputsOfOthersAreNotMoved) {
  float* const at = out_ + 4;
  EXPECT_TRUE(Apart({{in_, at, 4}, {in_ + 4, at + 4, 2}}, at));
  EXPECT_TRUE(Apart({{at, at, 4}, {in_, at + 4, 2}}, at)) << "at its own";
  EXPECT_TRUE(Apart({{out_, at, 4}, {at + 6, at + 4, 2}}, at)) << "just before, and just behind";
  EXPECT_TRUE(Apart({{nullptr, at, 4}}, at)) << "zeros";
  EXPECT_FALSE(Apart({{at + 4, at, 4}, {at, at + 4, 4}}, at));
  EXPECT_FALSE(Apart({{at - 1, at, 4}}, at)) << "begins before";
  EXPECT_FALSE(Apart({{at + 3, at, 4}}, at)) << "ends behind";
}

}  // namespace
}  // namespace farandole::worker::nccl
