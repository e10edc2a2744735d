#include "controller/rank_set.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
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
}  // namespace farandole
