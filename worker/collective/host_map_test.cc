#include "worker/collective/host_map.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collective/communicator_testing.h"

namespace farandole::worker::collective {
namespace {

using testing::ElementsAre;

std::vector<int> RanksOf(const Group& group) {
  std::vector<int> ranks;
  for (const Member& member : group.members) ranks.push_back(member.rank.value());
  return ranks;
}

TEST(HostMapTest, UnevenHostsWhoseMembersTakeTurns) {
  const Group group = TestGroupOnHosts({7, 3, 7, 7, 3}, 3);
  const HostMap map(group);
  EXPECT_EQ(map.hosts(), 2);
  EXPECT_THAT(map.members(0), ElementsAre(0, 2, 3));
  EXPECT_THAT(map.members(1), ElementsAre(1, 4));
  EXPECT_THAT(map.by_host(), ElementsAre(0, 2, 3, 1, 4));
  EXPECT_FALSE(map.even());
  EXPECT_EQ(map.host_of(3), 0);
  EXPECT_EQ(map.local_of(3), 2);
  EXPECT_EQ(map.local_of(4), 1);
  const Group local = map.Local(group);
  EXPECT_THAT(RanksOf(local), ElementsAre(0, 2, 3));
  EXPECT_EQ(local.position, 2);
  EXPECT_EQ(local.key, "0.h0");
}

TEST(HostMapTest, EvenHostsHaveRingsAcross) {
  const Group group = TestGroupOnHosts({0, 0, 1, 1, 2, 2}, 3);
  const HostMap map(group);
  EXPECT_TRUE(map.even());
  const Group across = map.Across(group);
  EXPECT_THAT(RanksOf(across), ElementsAre(1, 3, 5));
  EXPECT_EQ(across.position, 1);
  EXPECT_EQ(across.key, "0.x1");
  EXPECT_EQ(map.Local(group).key, "0.h1");
  EXPECT_EQ(map.Local(group).position, 1);
}

TEST(HostMapTest, LeadersMeetAcrossUnevenHosts) {
  const Group group = TestGroupOnHosts({0, 1, 1, 2}, 1);
  EXPECT_THAT(RanksOf(HostMap(group).Across(group)), ElementsAre(0, 1, 3));
}

}  // namespace
}  // namespace farandole::worker::collective
