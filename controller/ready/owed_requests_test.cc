#include "controller/ready/owed_requests.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::controller::ready {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(OwedRequestsTest, AreOwedUntilEachIsAnnounced) {
  OwedRequests owed;
  const RankSet all = RankSet::All(3);
  EXPECT_EQ(owed.Without(all, 0, "a").count(), 3);
  owed.Add(0, "a", all);
  owed.Add(1, "a", RankSet::All(1));
  owed.Announced(0, "b", {Rank(1)});
  EXPECT_THAT(owed.Without(all, 0, "a").ToVector(), IsEmpty());
  owed.Announced(0, "a", {Rank(1)});
  EXPECT_THAT(owed.Without(all, 0, "a").ToVector(), ElementsAre(Rank(1)));
  owed.Forget(Rank(0));
  EXPECT_EQ(owed.Without(all, 1, "a").count(), 3);
  EXPECT_FALSE(owed.empty()) << "rank 2 owes a of set 0";
  owed.Announced(0, "a", {Rank(2)});
  EXPECT_TRUE(owed.empty());
}

TEST(OwedRequestsTest, KnowsWhatIsOwedInASet) {
  OwedRequests owed;
  owed.Add(0, "z", RankSet::All(2));
  owed.Add(2, "y", RankSet::All(2));
  owed.Add(2, "x", RankSet::All(2));
  EXPECT_EQ(owed.FirstOf(0), "z");
  EXPECT_EQ(owed.FirstOf(1), "");
  EXPECT_EQ(owed.FirstOf(2), "x");
  EXPECT_EQ(owed.FirstOf(3), "");
  owed.Clear();
  EXPECT_TRUE(owed.empty());
}

TEST(OwedRequestsTest, AHelloReplacesWhatTheOneBeforeHasSaid) {
  OwedRequests owed;
  owed.Add(0, "w", RankSet::All(2));
  owed.Said(Rank(1), {{0, "a"}, {0, "b"}, {2, "a"}});
  EXPECT_THAT(owed.Without(RankSet::All(2), 0, "a").ToVector(), ElementsAre(Rank(0)));
  EXPECT_THAT(owed.Without(RankSet::All(2), 2, "a").ToVector(), ElementsAre(Rank(0)));
  owed.Announced(0, "b", {Rank(1)});
  owed.Said(Rank(0), {{0, "a"}});
  owed.Said(Rank(1), {{0, "b"}});
  EXPECT_THAT(owed.Without(RankSet::All(2), 0, "a").ToVector(), ElementsAre(Rank(1)));
  EXPECT_THAT(owed.Without(RankSet::All(2), 0, "b").ToVector(), ElementsAre(Rank(0)));
  EXPECT_EQ(owed.Without(RankSet::All(2), 2, "a").count(), 2);
  EXPECT_EQ(owed.Without(RankSet::All(2), 0, "w").count(), 0) << "which no Hello has said";
  EXPECT_GT(owed.said_bytes(), 0u);
  owed.Said(Rank(0), {});
  owed.Forget(Rank(1));
  EXPECT_EQ(owed.said_bytes(), 0u);
  EXPECT_EQ(owed.FirstOf(0), "w");
  owed.Said(Rank(1), {{0, "x"}});
  owed.Clear();
  EXPECT_TRUE(owed.empty());
}

}  // namespace
}  // namespace farandole::controller::ready
