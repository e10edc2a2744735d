#include "controller/ready/process_sets.h"

#include "gtest/gtest.h"

namespace farandole::controller::ready {
namespace {

std::vector<Rank> Ranks(const std::vector<int>& values) {
  std::vector<Rank> ranks;
  for (int value : values) ranks.push_back(Rank(value));
  return ranks;
}

TEST(ProcessSetsTest, ZeroHasAllRanks) {
  const ProcessSets sets(3);
  ASSERT_NE(sets.Find(0), nullptr);
  EXPECT_EQ(sets.Find(0)->ranks(), Ranks({0, 1, 2}));
  EXPECT_EQ(sets.FindRanks(Ranks({0, 1, 2})), sets.Find(0));
  EXPECT_EQ(sets.Find(1), nullptr);
  EXPECT_TRUE(sets.List().empty());
}

TEST(ProcessSetsTest, MembersHavePositions) {
  ProcessSets sets(8);
  const SetMembers* odd = sets.Add(Ranks({1, 3, 5}));
  EXPECT_EQ(odd->id(), 1u);
  EXPECT_EQ(odd->PositionOf(Rank(1)), 0);
  EXPECT_EQ(odd->PositionOf(Rank(5)), 2);
  EXPECT_TRUE(odd->Contains(Rank(3)));
  EXPECT_FALSE(odd->Contains(Rank(4)));
  EXPECT_EQ(sets.Find(0)->PositionOf(Rank(4)), 4);
  EXPECT_EQ(sets.FindRanks(Ranks({1, 3, 5})), odd);
  EXPECT_EQ(sets.FindRanks(Ranks({1, 3})), nullptr);
}

TEST(ProcessSetsTest, AnIdIsFreeWhenAllHaveReceivedTheRemoval) {
  ProcessSets sets(4);
  sets.Add(Ranks({0, 1}));
  sets.Add(Ranks({2, 3}));
  sets.Remove(1);
  EXPECT_EQ(sets.Find(1), nullptr);
  sets.Stable(100);
  EXPECT_EQ(sets.Add(Ranks({0, 2}))->id(), 3u) << "the removal has no index in the log yet";
  sets.RemovalsSent(7);
  sets.Stable(6);
  EXPECT_EQ(sets.Add(Ranks({0, 3}))->id(), 4u) << "one rank has not received item 7";
  sets.Stable(7);
  EXPECT_EQ(sets.Add(Ranks({1, 2}))->id(), 1u);
}

TEST(ProcessSetsTest, IsRestoredFromItsMembers) {
  ProcessSets sets(4);
  sets.Restore({5, Ranks({1, 2})});
  sets.Restore({0, Ranks({1})});
  ASSERT_NE(sets.Find(5), nullptr);
  EXPECT_EQ(sets.Find(0)->size(), 4) << "set 0 never changes";
  EXPECT_EQ(sets.Add(Ranks({0, 1}))->id(), 1u);
  ASSERT_EQ(sets.List().size(), 2u);
  EXPECT_EQ(sets.List()[1].id, 5u);
  sets.RestoreRemoval(1, 9);
  EXPECT_EQ(sets.Add(Ranks({0, 2}))->id(), 2u);
  sets.Stable(9);
  EXPECT_EQ(sets.Add(Ranks({0, 3}))->id(), 1u);
}

TEST(ProcessSetsTest, NumberOfSetsIsBounded) {
  ProcessSets sets(2);
  for (size_t i = 0; i < ProcessSets::kSetsMax; ++i) ASSERT_NE(sets.Add(Ranks({0})), nullptr);
  EXPECT_EQ(sets.Add(Ranks({1})), nullptr);
}

}  // namespace
}  // namespace farandole::controller::ready
