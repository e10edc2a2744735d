#include "controller/signature_check.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;

Signature Tensor(OpKind op, std::vector<int64_t> shape) {
  Signature s;
  s.op = op;
  s.dtype = DataType::kFloat32;
  s.shape = std::move(shape);
  return s;
}

// The texts themselves are in tests/transcripts/mismatch.txt.
TEST(SignatureCheckTest, OnlyDimensionZeroOfAnAllgatherMayDiffer) {
  EXPECT_TRUE(SameCollective(Tensor(OpKind::kAllgather, {1, 2}), Tensor(OpKind::kAllgather, {3, 2})));
  EXPECT_FALSE(SameCollective(Tensor(OpKind::kAllgather, {1, 2}), Tensor(OpKind::kAllgather, {1, 3})));
  EXPECT_FALSE(SameCollective(Tensor(OpKind::kAllgather, {1}), Tensor(OpKind::kAllgather, {})));
  EXPECT_FALSE(SameCollective(Tensor(OpKind::kAllreduce, {1, 2}), Tensor(OpKind::kAllreduce, {3, 2})));
  EXPECT_FALSE(SameCollective(Tensor(OpKind::kAllgather, {1}), Tensor(OpKind::kBroadcast, {1})));
}

TEST(SignatureCheckTest, AgreementIsNoMismatch) {
  EXPECT_FALSE(FindMismatch("x", Tensor(OpKind::kAllreduce, {4}), {}, 4));
  EXPECT_FALSE(FindMismatch("x", Tensor(OpKind::kAllreduce, {}), {}, 4));
}

TEST(SignatureCheckTest, FactorsAreShownWithTheDigitsThatTellThemApart) {
  Signature common = Tensor(OpKind::kAllreduce, {4});
  common.prescale = 1.0 / 3;
  Signature other = common;
  other.prescale = 0.33333333333333337;
  EXPECT_THAT(FindMismatch("x", common, {{Rank(1), other}}, 2).value_or(""),
              HasSubstr("(0.3333333333333333, 1) on rank 0 and (0.33333333333333337, 1) on rank 1"));
}

TEST(SignatureCheckTest, ManyDifferentValuesAreCounted) {
  const Signature common = Tensor(OpKind::kAllreduce, {0});
  std::vector<Deviation> deviations;
  for (int r = 1; r < 10; ++r) deviations.push_back({Rank(r), Tensor(OpKind::kAllreduce, {r})});
  EXPECT_THAT(FindMismatch("x", common, deviations, 10).value_or(""), HasSubstr("[3] on rank 3 and 6 other values"));
}

TEST(SignatureCheckTest, AnOperationThatNobodyKnowsIsRefused) {
  EXPECT_THAT(FindMismatch("x", Tensor(OpKind::kUnspecified, {4}), {}, 2).value_or(""), HasSubstr("Unknown operation"));
}

}  // namespace
}  // namespace farandole
