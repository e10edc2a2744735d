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

TEST(LayoutTest, OfTensorsOneBehindTheOther) {
  float in[6] = {}, out[6] = {};
  const Layout layout = LayoutOf(DataType::kFloat32, {{in, out, 2}, {nullptr, nullptr, 0}, {in + 2, out + 2, 4}});
  EXPECT_EQ(layout.input, in);
  EXPECT_EQ(layout.output, out);
  EXPECT_EQ(LayoutOf(DataType::kFloat32, {{in, in, 6}}).output, in);
}

TEST(LayoutTest, OfOthersIsNone) {
  float in[6] = {}, out[6] = {};
  const auto of = [](const std::vector<collective::Piece>& pieces) { return LayoutOf(DataType::kFloat32, pieces); };
  const Layout gap_before = of({{in, out, 2}, {in + 3, out + 2, 2}});
  EXPECT_EQ(gap_before.input, nullptr);
  EXPECT_EQ(gap_before.output, out);
  const Layout gap_after = of({{in, out, 2}, {in + 2, out + 3, 2}});
  EXPECT_EQ(gap_after.input, in);
  EXPECT_EQ(gap_after.output, nullptr);
  EXPECT_EQ(of({{in, out, 2}, {in + 3, out + 2, 1}, {in + 4, out + 3, 1}}).input, nullptr) << "a gap is not forgotten";
  EXPECT_EQ(of({{in, out, 2}, {nullptr, nullptr, 2}}).input, nullptr) << "zeros";
  EXPECT_EQ(of({{nullptr, out, 2}, {in, out + 2, 2}}).input, nullptr) << "zeros at first";
  EXPECT_EQ(of({{nullptr, out, 2}, {in, out + 2, 2}}).output, out);
  EXPECT_EQ(of({{in, nullptr, 2}}).output, nullptr) << "no result is wanted";
  EXPECT_EQ(of({}).input, nullptr) << "nothing";
}

TEST(LayoutTest, InputsThatLieAmongTheOutputsOfOthersAreNotMoved) {
  float at[8] = {}, in[4] = {};
  const auto apart = [&at](const std::vector<collective::Piece>& pieces) {
    return InputsAreApart(DataType::kFloat32, pieces, at + 2);
  };
  EXPECT_TRUE(apart({{in, at + 2, 2}, {in + 2, at + 4, 2}}));
  EXPECT_TRUE(apart({{at + 2, at + 2, 2}, {in, at + 4, 2}})) << "at its own";
  EXPECT_TRUE(apart({{at, at + 2, 2}, {at + 6, at + 4, 2}})) << "just before, and just behind";
  EXPECT_TRUE(apart({{nullptr, at + 2, 4}})) << "zeros";
  EXPECT_FALSE(apart({{at + 4, at + 2, 2}, {at + 2, at + 4, 2}}));
  EXPECT_FALSE(apart({{at + 1, at + 2, 4}})) << "begins before";
  EXPECT_FALSE(apart({{at + 5, at + 2, 4}})) << "ends behind";
}

}  // namespace
}  // namespace farandole::worker::nccl
