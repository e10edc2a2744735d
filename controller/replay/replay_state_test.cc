#include "controller/replay/replay_state.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::controller::replay {
namespace {

using ::testing::ElementsAre;
using Stage = ReplayState::Stage;

RankSet Of(const std::vector<int>& ranks) {
  RankSet set;
  for (int r : ranks) set.Add(Rank(r));
  return set;
}

// Batches of the given sets; names do not matter here.
Period OfSets(const std::vector<uint32_t>& sets) {
  Period period;
  for (uint32_t set : sets) period.batches.push_back({set, {}});
  return period;
}

std::vector<Begun> Find(const std::vector<uint32_t>& sets, const std::vector<uint64_t>& next,
                        const std::vector<RankSet>& members) {
  ReplayState state(static_cast<int>(next.size()));
  state.Begin(4, OfSets(sets));
  state.Halt(TimePoint(0));
  for (size_t r = 0; r < next.size(); ++r) {
    EXPECT_FALSE(state.all_halted());
    state.Halted(Rank(static_cast<int32_t>(r)), next[r]);
  }
  EXPECT_TRUE(state.all_halted());
  const auto begun = state.FindBegun([&](uint32_t set) { return &members[set]; });
  EXPECT_TRUE(begun);
  return begun.value_or(std::vector<Begun>());
}

TEST(ReplayStateTest, PhasesCountTheMarkers) {
  ReplayState state(2);
  EXPECT_EQ(state.phase(), 0u);
  state.Begin(4, OfSets({0}));
  EXPECT_EQ(state.phase(), 1u);
  EXPECT_EQ(state.stage(), Stage::kReplay);
  state.Halt(TimePoint(0));
  EXPECT_THAT(state.Awaited(8), ElementsAre(Rank(0), Rank(1)));
  state.Halted(Rank(1), 7);
  state.Halted(Rank(1), 9);
  EXPECT_THAT(state.Awaited(8), ElementsAre(Rank(0)));
  EXPECT_FALSE(state.all_halted());
  state.Halted(Rank(0), 7);
  EXPECT_TRUE(state.all_halted());
  EXPECT_EQ(state.Repetitions(), 7u);
  state.Resume();
  EXPECT_EQ(state.phase(), 2u);
  EXPECT_EQ(state.stage(), Stage::kNegotiate);
}

TEST(ReplayStateTest, EqualPositionsLeaveNothingOpen) { EXPECT_TRUE(Find({0, 0}, {5, 5, 5}, {Of({0, 1, 2})}).empty()); }

TEST(ReplayStateTest, WhatSomeHaveStartedIsBegun) {
  const auto begun = Find({0, 0}, {5, 6, 4}, {Of({0, 1, 2})});
  ASSERT_EQ(begun.size(), 2u);
  EXPECT_EQ(begun[0].seq, 4u);
  EXPECT_THAT(begun[0].started, ElementsAre(Rank(0), Rank(1)));
  EXPECT_EQ(begun[1].seq, 5u);
  EXPECT_THAT(begun[1].started, ElementsAre(Rank(1)));
}

// Sets 1 = {0, 1} and 2 = {2, 3} are a thousand periods apart; nothing compares their positions.
TEST(ReplayStateTest, EachSetHasItsOwnRange) {
  const std::vector<RankSet> members = {Of({0, 1, 2, 3}), Of({0, 1}), Of({2, 3})};
  EXPECT_TRUE(Find({1, 2}, {1, 1, 2000, 2000}, members).empty());
  const auto begun = Find({1, 2}, {1, 3, 2000, 2000}, members);
  ASSERT_EQ(begun.size(), 1u);
  EXPECT_EQ(begun[0].seq, 2u);
  EXPECT_THAT(begun[0].started, ElementsAre(Rank(1)));
}

TEST(ReplayStateTest, ImpossiblePositionsAreNotBelieved) {
  ReplayState state(2);
  const RankSet members = Of({0, 1});
  state.Begin(4, OfSets({0}));
  state.Halt(TimePoint(0));
  state.Halted(Rank(0), 0);
  state.Halted(Rank(1), ~uint64_t{0});
  EXPECT_FALSE(state.FindBegun([&](uint32_t) { return &members; }));
}

// Counting on from there would begin anew, and never end.
TEST(ReplayStateTest, PositionsAtTheEndOfAllNumbersAreNotBelieved) {
  ReplayState state(2);
  const RankSet members = Of({0, 1});
  state.Begin(4, OfSets({0, 0, 0}));
  state.Halt(TimePoint(0));
  state.Halted(Rank(0), ~uint64_t{0} - 1);
  state.Halted(Rank(1), ~uint64_t{0});
  EXPECT_FALSE(state.FindBegun([&](uint32_t) { return &members; }));
}

}  // namespace
}  // namespace farandole::controller::replay
