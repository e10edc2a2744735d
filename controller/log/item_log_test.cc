#include "controller/log/item_log.h"

#include <algorithm>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::controller::log {
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
  EXPECT_EQ(log.Append(0, JoinDone{}, nullptr).index, 1u);
  const RankSet second = Only(1);
  EXPECT_EQ(log.Append(0, JoinDone{}, &second).generation, kGeneration);
  log.Append(0, JoinDone{}, nullptr);
  EXPECT_THAT(Above(log, 0, 0), ElementsAre(1, 3));
  EXPECT_THAT(Above(log, 1, 1), ElementsAre(2, 3));
  EXPECT_THAT(Above(log, 1, 3), ElementsAre());
}

TEST(ItemLogTest, OneLacksWhatConcernsItUntilItHasSaidSo) {
  ItemLog log(kGeneration, 2, 4);  // steps of one
  const RankSet second = Only(1);
  log.Append(0, JoinDone{}, nullptr);
  log.Append(0, JoinDone{}, &second);
  log.Append(0, JoinDone{}, nullptr);
  EXPECT_FALSE(log.Lacks(Rank(0), 2)) << "it does not concern it, though a later one does";
  EXPECT_TRUE(log.Lacks(Rank(0), 3));
  EXPECT_FALSE(log.Lacks(Rank(0), 4)) << "there is none";
  EXPECT_TRUE(log.Received(Rank(1), 2));
  EXPECT_FALSE(log.Lacks(Rank(1), 2));
  EXPECT_TRUE(log.Lacks(Rank(1), 3));
  log.Part(Rank(1));
  EXPECT_TRUE(log.Received(Rank(0), 3));
  EXPECT_TRUE(log.Received(Rank(1), 3));
  EXPECT_NE(log.TakeStable(), absl::nullopt);
  EXPECT_FALSE(log.Lacks(Rank(1), 3)) << "it is not kept any more";
  log.Append(0, JoinDone{}, nullptr);
  EXPECT_FALSE(log.Lacks(Rank(1), 4)) << "who leaves";
  log.Release(Rank(0));
  EXPECT_FALSE(log.Lacks(Rank(0), 4)) << "who has left";
}

TEST(ItemLogTest, StableIsWhatAllHaveReceivedThatConcernsThem) {
  ItemLog log(kGeneration, 3, 4);  // steps of one
  const RankSet last = Only(2);
  log.Append(0, JoinDone{}, nullptr);
  log.Append(0, JoinDone{}, &last);
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
  for (int i = 0; i < 4; ++i) log.Append(0, JoinDone{}, &first);
  EXPECT_TRUE(log.Received(Rank(1), 0));
  EXPECT_TRUE(log.Received(Rank(0), 4));
  EXPECT_EQ(log.TakeStable(), absl::optional<uint64_t>(4));
  log.Append(0, JoinDone{}, nullptr);
  EXPECT_TRUE(log.Received(Rank(0), 5));
  EXPECT_EQ(log.stable(), 4u);
  // It never received items 1 to 4 and does not need them.
  EXPECT_THAT(Above(log, 1, 0), ElementsAre(5));
  EXPECT_TRUE(log.Received(Rank(1), 5));
  EXPECT_EQ(log.stable(), 5u);
}

TEST(ItemLogTest, ItIsNotFullOfWhatOnlyOthersReceive) {
  ItemLog log(kGeneration, 3, 4);
  const RankSet first = Only(0);
  const RankSet last = Only(2);
  log.Release(Rank(2));
  for (int i = 0; i < 3; ++i) log.Append(0, JoinDone{}, &first);
  log.Append(0, JoinDone{}, &last);
  EXPECT_FALSE(log.MakeRoom());
  // Rank 0 was looked at last; rank 1 has nothing to report.
  EXPECT_TRUE(log.Received(Rank(0), 3));
  EXPECT_TRUE(log.MakeRoom());
  for (int i = 0; i < 4; ++i) log.Append(0, JoinDone{}, &last);
  EXPECT_TRUE(log.MakeRoom());
}

TEST(ItemLogTest, NobodyIsToldThatOthersHaveLeft) {
  ItemLog log(kGeneration, 3, 4);
  const RankSet first = Only(0), second = Only(1);
  log.Append(0, LeaveDone{}, &first);
  log.Release(Rank(0));
  EXPECT_EQ(log.stable(), 1u);
  EXPECT_EQ(log.TakeStable(), absl::nullopt);
  log.Append(0, JoinDone{}, nullptr);
  log.Append(0, LeaveDone{}, &second);
  log.Release(Rank(1));
  EXPECT_TRUE(log.Received(Rank(2), 2));
  EXPECT_EQ(log.TakeStable(), absl::optional<uint64_t>(3));
}

// Against the definition: everybody has received every item up to there that concerns it.
TEST(ItemLogTest, StableFollowsItsDefinitionInStepsAndNeverFalls) {
  constexpr int kMembers = 5;
  constexpr uint64_t kStep = 3;
  std::mt19937 random(7);
  ItemLog log(kGeneration, kMembers, 4 * kStep);
  std::vector<std::vector<uint64_t>> concerning(kMembers);
  std::vector<uint64_t> received(kMembers, 0);
  uint64_t before = 0;
  for (int round = 0; round < 20000; ++round) {
    if (log.MakeRoom() && random() % 3 == 0) {
      const bool all = random() % 2 == 0;
      RankSet to;
      for (int r = 0; r < kMembers; ++r) {
        if (!all && random() % 4 != 0) continue;
        to.Add(Rank(r));
        concerning[r].push_back(log.last() + 1);
      }
      log.Append(0, JoinDone{}, all ? nullptr : &to);
    }
    const int r = static_cast<int>(random() % kMembers);
    const auto next = std::upper_bound(concerning[r].begin(), concerning[r].end(), received[r]);
    if (next != concerning[r].end()) received[r] = *next;
    ASSERT_TRUE(log.Received(Rank(r), received[r]));
    uint64_t truth = log.last();
    for (int m = 0; m < kMembers; ++m) {
      const auto lacks = std::upper_bound(concerning[m].begin(), concerning[m].end(), received[m]);
      if (lacks != concerning[m].end()) truth = std::min(truth, *lacks - 1);
    }
    ASSERT_LE(log.stable(), truth);
    ASSERT_GE(log.stable(), before);
    before = log.stable();
  }
  EXPECT_GT(before, 1000u);
}

TEST(ItemLogTest, FullUntilTheLaggardCatchesUp) {
  ItemLog log(kGeneration, 3, 4);
  for (int i = 0; i < 4; ++i) log.Append(0, JoinDone{}, nullptr);
  EXPECT_FALSE(log.MakeRoom());
  EXPECT_TRUE(log.Received(Rank(0), 4));
  EXPECT_TRUE(log.Received(Rank(2), 4));
  EXPECT_FALSE(log.MakeRoom());
  EXPECT_EQ(log.laggard(), Rank(1));
  EXPECT_TRUE(log.Received(Rank(1), 2));
  EXPECT_TRUE(log.MakeRoom());
  EXPECT_EQ(log.stable(), 2u);
}

TEST(ItemLogTest, ItemsToAllDoNotConcernALeaverAnyMore) {
  ItemLog log(kGeneration, 2, 8);
  log.Append(0, BarrierDone{}, nullptr);
  log.Part(Rank(1));
  log.Append(0, BarrierDone{}, nullptr);
  EXPECT_EQ(log.LastFor(Rank(0)), 2u);
  EXPECT_EQ(log.LastFor(Rank(1)), 1u);
  EXPECT_THAT(Above(log, 1, 0), ElementsAre(1));
  RankSet only;
  only.Add(Rank(1));
  log.Append(0, JoinDone{}, &only);
  EXPECT_EQ(log.LastFor(Rank(1)), 3u);
  EXPECT_THAT(Above(log, 1, 0), ElementsAre(1, 3));
}

TEST(ItemLogTest, AReleasedMemberHoldsNobodyUp) {
  ItemLog log(kGeneration, 2, 4);
  for (int i = 0; i < 4; ++i) log.Append(0, JoinDone{}, nullptr);
  EXPECT_TRUE(log.Received(Rank(0), 4));
  log.Release(Rank(1));
  EXPECT_EQ(log.stable(), 4u);
  EXPECT_FALSE(log.ForEachAbove(Rank(1), 0, [](const Item&) { FAIL(); }));
}

TEST(ItemLogTest, WhatCannotBeIsToldApart) {
  ItemLog log(kGeneration, 1, 4);
  EXPECT_FALSE(log.Received(Rank(0), 1));
  log.Append(0, JoinDone{}, nullptr);
  EXPECT_TRUE(log.Received(Rank(0), 1));
  EXPECT_FALSE(log.ForEachAbove(Rank(0), 0, [](const Item&) { FAIL(); }));
}

TEST(ItemLogTest, KnowsWhetherAllHaveHeardHowAReplayHasEnded) {
  ItemLog log(kGeneration, 3, 4096);
  log.Append(0, JoinDone{}, nullptr);
  EXPECT_TRUE(log.ReplayEndKnown());
  log.Append(1, Resume{}, nullptr);
  RankSet some;
  some.Add(Rank(0));
  some.Add(Rank(2));
  log.Append(2, Withdraw{}, &some);
  log.Append(2, JoinDone{}, nullptr);
  log.Received(Rank(0), 3);
  log.Received(Rank(2), 3);
  EXPECT_FALSE(log.ReplayEndKnown()) << "rank 1 lacks the Resume";
  log.Received(Rank(1), 4);
  EXPECT_TRUE(log.ReplayEndKnown());
  log.Append(2, Withdraw{}, &some);
  log.Received(Rank(2), 5);
  EXPECT_FALSE(log.ReplayEndKnown());
  log.Release(Rank(0));
  EXPECT_TRUE(log.ReplayEndKnown());
}

TEST(ItemLogTest, AsRestoredItKnowsWhoLacksTheEndOfAReplay) {
  ItemLog log(kGeneration, 4096, 6, {{5, {Item{kGeneration, 1, 5, Resume{}}, RankSet::All(2)}}}, {4, 6});
  EXPECT_FALSE(log.ReplayEndKnown());
  log.Received(Rank(0), 5);
  EXPECT_TRUE(log.ReplayEndKnown());
}

TEST(ItemLogTest, StableRisesInStepsThatAreWorthAMessage) {
  ItemLog log(kGeneration, 2, 4096);
  int said = 0;
  for (uint64_t i = 1; i <= 640; ++i) {
    log.Append(0, JoinDone{}, nullptr);
    log.Received(Rank(0), i);
    log.Received(Rank(1), i);
    said += log.TakeStable().has_value();
  }
  EXPECT_EQ(said, 10);
  EXPECT_EQ(log.stable(), 640u);
}

}  // namespace
}  // namespace farandole::controller::log
