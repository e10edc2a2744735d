#include "proto/rules/period_digest.h"

#include "gtest/gtest.h"

namespace farandole {
namespace {

Period TwoBatches() {
  Signature signature;
  signature.op = OpKind::kAllreduce;
  signature.shape = {3, 4};
  return {{{0, {{"a", signature}, {"b", signature}}}, {1, {{"c", signature}}}}};
}

TEST(PeriodDigestTest, IsAValueOfTheContract) {
  // Two releases of one minor version may meet, so the number itself must not change.
  EXPECT_EQ(Digest(Period()), 0xa8c7f832281a39c5u);
  EXPECT_EQ(Digest(TwoBatches()), Digest(TwoBatches()));
}

TEST(PeriodDigestTest, TellsEveryDifference) {
  const uint64_t digest = Digest(TwoBatches());
  Period period = TwoBatches();
  period.batches[0].requests[1].name = "x";
  EXPECT_NE(Digest(period), digest);
  period = TwoBatches();
  period.batches[1].process_set = 2;
  EXPECT_NE(Digest(period), digest);
  period = TwoBatches();
  period.batches[1].requests[0].signature.shape = {4, 3};
  EXPECT_NE(Digest(period), digest);
  period = TwoBatches();
  period.batches[1].requests[0].signature.prescale = 0.5;
  EXPECT_NE(Digest(period), digest);
  // The same tensors, batched otherwise.
  period = TwoBatches();
  period.batches[1].requests.insert(period.batches[1].requests.begin(), period.batches[0].requests[1]);
  period.batches[0].requests.pop_back();
  EXPECT_NE(Digest(period), digest);
}

}  // namespace
}  // namespace farandole
