#include "worker/session/process_set_table.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::worker::session {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(ProcessSetTableTest, BeginsWithAllAndFollowsTheItems) {
  ProcessSetTable sets;
  EXPECT_EQ(sets.Find(0), nullptr);
  std::vector<Member> members(3);
  for (int i = 0; i < 3; ++i) members[i].rank = Rank(i);
  sets.Reset(members, Rank(1));
  EXPECT_TRUE(sets.Includes(0));
  sets.Add({2, {Rank(2), Rank(1)}});
  sets.Add({3, {Rank(0)}});
  EXPECT_THAT(sets.Find(2)->ranks, ElementsAre(Rank(1), Rank(2)));
  EXPECT_TRUE(sets.Includes(2));
  EXPECT_FALSE(sets.Includes(3));
  EXPECT_FALSE(sets.Includes(4));
  ASSERT_EQ(sets.Made().size(), 2u);
  sets.Remove(2);
  sets.Remove(0);
  EXPECT_EQ(sets.Find(2), nullptr);
  EXPECT_TRUE(sets.Includes(0)) << "that of all ranks stays";
  sets.Reset(members, Rank(0));
  EXPECT_THAT(sets.Made(), IsEmpty());
}

}  // namespace
}  // namespace farandole::worker::session
