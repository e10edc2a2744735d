#include "controller/negotiator.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;
using Verdict = Negotiator::Verdict;

const TimePoint kNow(0);

Request Tensor(const std::string& name, std::vector<int64_t> shape = {4}, OpKind op = OpKind::kAllreduce) {
  Request request;
  request.name = name;
  request.signature.op = op;
  request.signature.dtype = DataType::kFloat32;
  request.signature.shape = std::move(shape);
  return request;
}

TEST(NegotiatorTest, ReadyWithTheLastRankAndInTheTableUntilClosed) {
  Negotiator n(3);
  EXPECT_EQ(n.Announce(Rank(2), Tensor("x"), kNow).verdict, Verdict::kWaiting);
  EXPECT_EQ(n.Announce(Rank(2), Tensor("x"), kNow).verdict, Verdict::kDuplicate);
  EXPECT_EQ(n.Announce(Rank(0), Tensor("x"), kNow).verdict, Verdict::kWaiting);
  const Negotiator::Outcome last = n.Announce(Rank(1), Tensor("x"), kNow);
  EXPECT_EQ(last.verdict, Verdict::kReady);
  EXPECT_EQ(last.ready.name, "x");
  EXPECT_TRUE(last.ready.first_dims.empty());
  EXPECT_EQ(n.Announce(Rank(1), Tensor("x"), kNow).verdict, Verdict::kDuplicate);
  EXPECT_EQ(n.OpenCount(Rank(0)), 1u);
  n.Close(0, "x");
  EXPECT_EQ(n.OpenCount(Rank(0)), 0u);
  EXPECT_EQ(n.Announce(Rank(1), Tensor("x"), kNow).verdict, Verdict::kWaiting);
}

TEST(NegotiatorTest, FirstDimensionsAreByRankNotByArrival) {
  Negotiator n(3);
  n.Announce(Rank(2), Tensor("g", {7, 2}, OpKind::kAllgather), kNow);
  n.Announce(Rank(0), Tensor("g", {0, 2}, OpKind::kAllgather), kNow);
  EXPECT_THAT(n.Announce(Rank(1), Tensor("g", {5, 2}, OpKind::kAllgather), kNow).ready.first_dims,
              ElementsAre(0, 5, 7));
}

TEST(NegotiatorTest, AMismatchLeavesTheTableSoThatTheNameCanBeUsedAgain) {
  Negotiator n(2);
  n.Announce(Rank(0), Tensor("x", {4}), kNow);
  EXPECT_EQ(n.Announce(Rank(1), Tensor("x", {5}), kNow).verdict, Verdict::kMismatch);
  EXPECT_EQ(n.OpenCount(Rank(0)), 0u);
  n.Announce(Rank(0), Tensor("x", {5}), kNow);
  EXPECT_EQ(n.Announce(Rank(1), Tensor("x", {5}), kNow).verdict, Verdict::kReady);
}

TEST(NegotiatorTest, RetainTakesBackWhatIsNotListedUnlessItIsReady) {
  Negotiator n(2);
  n.Announce(Rank(0), Tensor("ready"), kNow);
  n.Announce(Rank(1), Tensor("ready"), kNow);
  n.Announce(Rank(0), Tensor("kept"), kNow);
  n.Announce(Rank(0), Tensor("dropped"), kNow);
  n.Retain(Rank(0), {Tensor("kept")});
  EXPECT_EQ(n.OpenCount(Rank(0)), 2u);
  EXPECT_EQ(n.Announce(Rank(1), Tensor("kept"), kNow).verdict, Verdict::kReady);
  EXPECT_EQ(n.Announce(Rank(1), Tensor("dropped"), kNow).verdict, Verdict::kWaiting);
}

TEST(NegotiatorTest, ATakenBackSignatureIsNotTheCommonOneAnyMore) {
  Negotiator n(3);
  n.Announce(Rank(0), Tensor("x", {9}), kNow);
  n.Announce(Rank(1), Tensor("x", {4}), kNow);
  n.Retain(Rank(0), {});
  n.Announce(Rank(2), Tensor("x", {4}), kNow);
  EXPECT_EQ(n.Announce(Rank(0), Tensor("x", {4}), kNow).verdict, Verdict::kReady);
}

TEST(NegotiatorTest, ADeviatingRankMayComeBackWithTheCommonSignature) {
  Negotiator n(2);
  n.Announce(Rank(0), Tensor("x", {4}), kNow);
  Negotiator m(3);
  m.Announce(Rank(0), Tensor("x", {4}), kNow);
  m.Announce(Rank(1), Tensor("x", {9}), kNow);
  m.Retain(Rank(1), {});
  m.Announce(Rank(1), Tensor("x", {4}), kNow);
  EXPECT_EQ(m.Announce(Rank(2), Tensor("x", {4}), kNow).verdict, Verdict::kReady);
}

TEST(NegotiatorTest, AbandonGroupsNamesByThoseWhoWait) {
  Negotiator n(3);
  for (const char* name : {"a", "b"}) {
    n.Announce(Rank(0), Tensor(name), kNow);
    n.Announce(Rank(1), Tensor(name), kNow);
  }
  n.Announce(Rank(2), Tensor("own"), kNow);
  n.Announce(Rank(1), Tensor("c"), kNow);
  n.Announce(Rank(2), Tensor("c"), kNow);
  const auto abandoned = n.Abandon(Rank(2));
  ASSERT_EQ(abandoned.size(), 2u);
  EXPECT_THAT(abandoned[0].names, ElementsAre("a", "b"));
  EXPECT_THAT(abandoned[0].ranks.ToVector(), ElementsAre(Rank(0), Rank(1)));
  EXPECT_THAT(abandoned[1].names, ElementsAre("c"));
  EXPECT_EQ(n.OpenCount(Rank(1)), 0u);
}

TEST(NegotiatorTest, WaitsNameWhoIsMissingOldestFirst) {
  Negotiator n(3);
  n.Announce(Rank(1), Tensor("late"), TimePoint(0).PlusMs(10));
  n.Announce(Rank(2), Tensor("later"), TimePoint(0).PlusMs(20));
  const auto waits = n.Waits(1);
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0].name, "late");
  EXPECT_TRUE(waits[0].since == TimePoint(0).PlusMs(10));
  EXPECT_THAT(waits[0].missing.ToVector(), ElementsAre(Rank(0), Rank(2)));
}

}  // namespace
}  // namespace farandole
