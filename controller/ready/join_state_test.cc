#include "controller/ready/join_state.h"

#include "gtest/gtest.h"

namespace farandole::controller::ready {
namespace {

const TimePoint kNow(5);

TEST(JoinStateTest, NobodyCountsTwice) {
  JoinState joins;
  EXPECT_TRUE(joins.Join(Rank(2), "join", kNow));
  EXPECT_FALSE(joins.Join(Rank(2), "join", kNow));
  EXPECT_TRUE(joins.Join(Rank(0), "join", kNow));
  EXPECT_EQ(joins.ranks().count(), 2);
  EXPECT_EQ(joins.last(), Rank(0));
  EXPECT_TRUE(joins.since() == kNow);
  ASSERT_EQ(joins.names().size(), 1u);
  EXPECT_EQ(joins.names()[0].second.count(), 2);
}

TEST(JoinStateTest, WhoTakesItBackWasNotLast) {
  JoinState joins;
  joins.Join(Rank(2), "join", kNow);
  joins.Join(Rank(1), "other", kNow);
  joins.TakeBack(Rank(1));
  joins.TakeBack(Rank(7));
  EXPECT_EQ(joins.last(), Rank(2));
  EXPECT_EQ(joins.ranks().count(), 1);
  ASSERT_EQ(joins.names().size(), 1u);
  EXPECT_EQ(joins.names()[0].first, "join");
}

TEST(JoinStateTest, ResetsAltogether) {
  JoinState joins;
  joins.Join(Rank(0), "join", kNow);
  joins.Reset();
  EXPECT_TRUE(joins.ranks().empty());
  EXPECT_FALSE(joins.last().known());
  EXPECT_TRUE(joins.Join(Rank(0), "join", kNow));
}

}  // namespace
}  // namespace farandole::controller::ready
