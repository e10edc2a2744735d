#include "controller/ready/signature_check.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::controller::ready {
namespace {

using ::testing::HasSubstr;

Signature Tensor(OpKind op, std::vector<int64_t> shape) {
  Signature s;
  s.op = op;
  s.dtype = DataType::kFloat32;
  s.shape = std::move(shape);
  return s;
}

// All ranks 0 .. size-1 have announced "x".
std::string Mismatch(const Signature& common, const std::vector<Deviation>& deviations, int size) {
  const ProcessSets sets(size);
  const SetMembers& all = *sets.Find(0);
  return FindMismatch({"x", common, deviations, all.set(), all}).value_or("");
}

// The texts themselves are in tests/transcripts/mismatch.txt.
TEST(SignatureCheckTest, OnlyDimensionZeroOfAnAllgatherMayDiffer) {
  EXPECT_TRUE(SameCollective(Tensor(OpKind::kAllgather, {1, 2}), Tensor(OpKind::kAllgather, {3, 2})));
  EXPECT_FALSE(SameCollective(Tensor(OpKind::kAllgather, {1, 2}), Tensor(OpKind::kAllgather, {1, 3})));
  EXPECT_FALSE(SameCollective(Tensor(OpKind::kAllgather, {1}), Tensor(OpKind::kAllgather, {})));
  EXPECT_FALSE(SameCollective(Tensor(OpKind::kAllreduce, {1, 2}), Tensor(OpKind::kAllreduce, {3, 2})));
  EXPECT_FALSE(SameCollective(Tensor(OpKind::kAllgather, {1}), Tensor(OpKind::kBroadcast, {1})));
}

TEST(SignatureCheckTest, PriorityAndSplitsMayDiffer) {
  Signature a = Tensor(OpKind::kAlltoall, {4});
  Signature b = Tensor(OpKind::kAlltoall, {2});
  b.splits = {2, 0};
  b.priority = 5;
  EXPECT_TRUE(SameCollective(a, b));
  b.device = DeviceKind::kAccelerator;
  EXPECT_FALSE(SameCollective(a, b));
  a = b;
  b.group = "g";
  EXPECT_FALSE(SameCollective(a, b));
}

TEST(SignatureCheckTest, SplitsOfAnAlltoall) {
  Signature s = Tensor(OpKind::kAlltoall, {6, 2});
  EXPECT_FALSE(CheckSplits(s, 3));
  EXPECT_THAT(CheckSplits(s, 4).value_or(""), HasSubstr("multiple of 4"));
  s.splits = {1, 0, 4};
  EXPECT_FALSE(CheckSplits(s, 3)) << "rows may be left over";
  for (const std::vector<int64_t>& bad :
       {std::vector<int64_t>{1, 6}, {1, 0, 6}, {-1, 0, 0}, {INT64_MAX, INT64_MAX, 2}}) {
    s.splits = bad;
    EXPECT_THAT(CheckSplits(s, 3).value_or(""), HasSubstr("with splits"));
  }
}

TEST(SignatureCheckTest, AgreementIsNoMismatch) {
  EXPECT_EQ(Mismatch(Tensor(OpKind::kAllreduce, {4}), {}, 4), "");
  EXPECT_EQ(Mismatch(Tensor(OpKind::kAllreduce, {}), {}, 4), "");
}

TEST(SignatureCheckTest, FactorsAreShownWithTheDigitsThatTellThemApart) {
  Signature common = Tensor(OpKind::kAllreduce, {4});
  common.prescale = 1.0 / 3;
  Signature other = common;
  other.prescale = 0.33333333333333337;
  EXPECT_THAT(Mismatch(common, {{Rank(1), std::make_shared<const Signature>(other)}}, 2),
              HasSubstr("(0.3333333333333333, 1) on rank 0 and (0.33333333333333337, 1) on rank 1"));
}

TEST(SignatureCheckTest, ManyDifferentValuesAreCounted) {
  const Signature common = Tensor(OpKind::kAllreduce, {0});
  std::vector<Deviation> deviations;
  for (int r = 1; r < 10; ++r) {
    deviations.push_back({Rank(r), std::make_shared<const Signature>(Tensor(OpKind::kAllreduce, {r}))});
  }
  EXPECT_THAT(Mismatch(common, deviations, 10), HasSubstr("[3] on rank 3 and 6 other values"));
}

TEST(SignatureCheckTest, ALongListOfRanksMakesNoLongText) {
  std::vector<int64_t> odd;
  for (int64_t r = 0; r < 30000; ++r) odd.push_back(2 * r + 1);
  const Signature common = Tensor(OpKind::kAddProcessSet, odd);
  odd.back() = 65535;
  const auto other = std::make_shared<const Signature>(Tensor(OpKind::kAddProcessSet, odd));
  const std::string text = Mismatch(common, {{Rank(1), other}}, 2);
  EXPECT_THAT(text, HasSubstr("29, 31 and 29984 more] on rank 0 and [1, 3, "));
  EXPECT_LT(text.size(), 1000u);
}

TEST(SignatureCheckTest, AnOperationThatNobodyKnowsIsRefused) {
  EXPECT_THAT(Mismatch(Tensor(OpKind::kUnspecified, {4}), {}, 2), HasSubstr("Unknown operation"));
}

}  // namespace
}  // namespace farandole::controller::ready
