#include "controller/item_log.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;

const GenerationId kGeneration{3, 9};

RankSet Only(int rank) {
  RankSet set;
  set.Add(Rank(rank));
  return set;
}

std::vector<uint64_t> Above(const ItemLog& log, int rank, uint64_t through) {
  std::vector<uint64_t> indices;
  EXPECT_TRUE(log.ForEachAbove(Rank(rank), through, [&](const Item& item) { indices.push_back(item.index); }));
  return indices;
}

TEST(ItemLogTest, IndicesRiseAndEachWorkerMissesWhatConcernsIt) {
  ItemLog log(kGeneration, 2, 4096);
  EXPECT_EQ(log.Append(LeaveDone{}, nullptr).index, 1u);
  const RankSet second = Only(1);
  EXPECT_EQ(log.Append(LeaveDone{}, &second).generation, kGeneration);
  log.Append(LeaveDone{}, nullptr);
  EXPECT_THAT(Above(log, 0, 0), ElementsAre(1, 3));
  EXPECT_THAT(Above(log, 1, 1), ElementsAre(2, 3));
  EXPECT_THAT(Above(log, 1, 3), ElementsAre());
}

TEST(ItemLogTest, StableIsWhatAllHaveReceivedThatConcernsThem) {
  ItemLog log(kGeneration, 3, 4);  // steps of one
  const RankSet last = Only(2);
  log.Append(LeaveDone{}, nullptr);
  log.Append(LeaveDone{}, &last);
  EXPECT_TRUE(log.Received(Rank(1), 1));
  EXPECT_TRUE(log.Received(Rank(2), 1));
  EXPECT_EQ(log.TakeStable(), absl::nullopt);
  EXPECT_TRUE(log.Received(Rank(0), 1));
  EXPECT_EQ(log.TakeStable(), absl::optional<uint64_t>(1));
  EXPECT_EQ(log.TakeStable(), absl::nullopt);
  // Item 2 concerns rank 2 alone.
  EXPECT_TRUE(log.Received(Rank(2), 2));
  EXPECT_EQ(log.TakeStable(), absl::optional<uint64_t>(2));
}

TEST(ItemLogTest, AMemberThatLackedNothingDoesNotFallBack) {
  ItemLog log(kGeneration, 2, 4);
  const RankSet first = Only(0);
  for (int i = 0; i < 4; ++i) log.Append(LeaveDone{}, &first);
  EXPECT_TRUE(log.Received(Rank(1), 0));
  EXPECT_TRUE(log.Received(Rank(0), 4));
  EXPECT_EQ(log.TakeStable(), absl::optional<uint64_t>(4));
  log.Append(LeaveDone{}, nullptr);
  EXPECT_TRUE(log.Received(Rank(0), 5));
  EXPECT_EQ(log.stable(), 4u);
  // It never received items 1 to 4 and does not need them.
  EXPECT_THAT(Above(log, 1, 0), ElementsAre(5));
  EXPECT_TRUE(log.Received(Rank(1), 5));
  EXPECT_EQ(log.stable(), 5u);
}

TEST(ItemLogTest, FullUntilTheLaggardCatchesUp) {
  ItemLog log(kGeneration, 3, 4);
  for (int i = 0; i < 4; ++i) log.Append(LeaveDone{}, nullptr);
  EXPECT_TRUE(log.Full());
  EXPECT_TRUE(log.Received(Rank(0), 4));
  EXPECT_TRUE(log.Received(Rank(2), 4));
  EXPECT_TRUE(log.Full());
  EXPECT_EQ(log.laggard(), Rank(1));
  EXPECT_TRUE(log.Received(Rank(1), 2));
  EXPECT_FALSE(log.Full());
  EXPECT_EQ(log.stable(), 2u);
}

TEST(ItemLogTest, AReleasedMemberHoldsNobodyUp) {
  ItemLog log(kGeneration, 2, 4);
  for (int i = 0; i < 4; ++i) log.Append(LeaveDone{}, nullptr);
  EXPECT_TRUE(log.Received(Rank(0), 4));
  log.Release(Rank(1));
  EXPECT_EQ(log.stable(), 4u);
  EXPECT_FALSE(log.ForEachAbove(Rank(1), 0, [](const Item&) { FAIL(); }));
}

TEST(ItemLogTest, WhatCannotBeIsToldApart) {
  ItemLog log(kGeneration, 1, 4);
  EXPECT_FALSE(log.Received(Rank(0), 1));
  log.Append(LeaveDone{}, nullptr);
  EXPECT_TRUE(log.Received(Rank(0), 1));
  EXPECT_FALSE(log.ForEachAbove(Rank(0), 0, [](const Item&) { FAIL(); }));
}

TEST(ItemLogTest, StableRisesInStepsThatAreWorthAMessage) {
  ItemLog log(kGeneration, 2, 4096);
  int said = 0;
  for (uint64_t i = 1; i <= 640; ++i) {
    log.Append(LeaveDone{}, nullptr);
    log.Received(Rank(0), i);
    log.Received(Rank(1), i);
    said += log.TakeStable().has_value();
  }
  EXPECT_EQ(said, 10);
  EXPECT_EQ(log.stable(), 640u);
}

}  // namespace
}  // namespace farandole
