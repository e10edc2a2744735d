#include "controller/types/rank_set.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::controller {
namespace {

TEST(RankSetTest, CountsEachRankOnce) {
  RankSet set;
  EXPECT_TRUE(set.Add(Rank(200)));
  EXPECT_TRUE(set.Add(Rank(3)));
  EXPECT_FALSE(set.Add(Rank(200)));
  EXPECT_EQ(set.count(), 2);
  EXPECT_THAT(set.ToVector(), ::testing::ElementsAre(Rank(3), Rank(200)));
  EXPECT_TRUE(set.Remove(Rank(200)));
  EXPECT_FALSE(set.Remove(Rank(200)));
  EXPECT_FALSE(set.Remove(Rank(1000)));
  EXPECT_FALSE(set.Contains(Rank(200)));
  EXPECT_EQ(set.count(), 1);
}

TEST(RankSetTest, HasNoRankThatCannotBe) {
  RankSet set;
  for (int32_t rank : {-1, -64, -65, INT32_MIN, RankSet::kRanksMax, INT32_MAX}) {
    EXPECT_FALSE(set.Contains(Rank(rank))) << rank;
    EXPECT_FALSE(set.Add(Rank(rank))) << rank;
    EXPECT_FALSE(set.Contains(Rank(rank))) << rank;
    EXPECT_FALSE(set.Remove(Rank(rank))) << rank;
  }
  EXPECT_TRUE(set.empty());
  EXPECT_TRUE(set.ToVector().empty());
  EXPECT_TRUE(set.Add(Rank(RankSet::kRanksMax - 1)));
}

TEST(RankSetTest, NamesThoseThatAreAbsent) {
  RankSet set;
  for (int r = 0; r < 130; ++r) {
    if (r != 5 && r != 64) set.Add(Rank(r));
  }
  EXPECT_THAT(set.Absent(132, 0, 16), ::testing::ElementsAre(Rank(5), Rank(64), Rank(130), Rank(131)));
  EXPECT_THAT(set.Absent(132, 0, 2), ::testing::ElementsAre(Rank(5), Rank(64)));
  EXPECT_THAT(set.Absent(132, 1, 2), ::testing::ElementsAre(Rank(64), Rank(130)));
  EXPECT_THAT(set.Absent(132, 3, 16), ::testing::ElementsAre(Rank(131)));
  EXPECT_THAT(set.Absent(132, 4, 16), ::testing::IsEmpty());
  EXPECT_THAT(set.Absent(64, 0, 16), ::testing::ElementsAre(Rank(5)));
  EXPECT_THAT(RankSet().Absent(2, 0, 16), ::testing::ElementsAre(Rank(0), Rank(1)));
}

std::vector<int> Values(const RankSet& set) {
  std::vector<int> values;
  for (Rank rank : set.ToVector()) values.push_back(rank.value());
  return values;
}

TEST(RankSetTest, UnitesIntersectsAndSubtracts) {
  RankSet a, b;
  for (int r : {1, 70, 200}) a.Add(Rank(r));
  for (int r : {1, 64}) b.Add(Rank(r));
  EXPECT_TRUE(a.Intersects(b));
  RankSet without = a;
  without.RemoveAll(b);
  EXPECT_THAT(Values(without), ::testing::ElementsAre(70, 200));
  EXPECT_EQ(without.count(), 2);
  EXPECT_FALSE(without.Intersects(b));
  RankSet common = a;
  common.KeepOnly(b);
  EXPECT_THAT(Values(common), ::testing::ElementsAre(1));
  EXPECT_EQ(common.count(), 1);
  RankSet both = b;
  both.AddAll(a);
  EXPECT_THAT(Values(both), ::testing::ElementsAre(1, 64, 70, 200));
  EXPECT_EQ(both.count(), 4);
  RankSet rest = RankSet::All(130);
  EXPECT_EQ(rest.count(), 130);
  EXPECT_FALSE(rest.Contains(Rank(130)));
  rest.RemoveAll(RankSet::All(128));
  EXPECT_THAT(Values(rest), ::testing::ElementsAre(128, 129));
}

TEST(RankSetTest, EqualityIsThatOfTheMembers) {
  RankSet a, b;
  a.Add(Rank(1));
  b.Add(Rank(300));
  EXPECT_FALSE(a == b);
  b.Add(Rank(1));
  b.Remove(Rank(300));
  EXPECT_TRUE(a == b);
}

}  // namespace
}  // namespace farandole::controller
