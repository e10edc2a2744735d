#include "proto/hosted_view.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

Member MemberOf(int rank, const std::string& agent) {
  Member member;
  member.rank = Rank(rank);
  member.host = "host of " + agent;
  member.pid = 100 + rank;
  member.agent_id = agent;
  member.worker_incarnation = Incarnation(rank + 1);
  return member;
}

View FiveMembers() {
  View view;
  view.generation = {3, 4};
  view.data_key = "k";
  for (const char* agent : {"a", "b", "a", "a", "b"}) {
    view.members.push_back(MemberOf(static_cast<int>(view.members.size()), agent));
  }
  Place(&view.members);
  return view;
}

TEST(HostedViewTest, PositionsFollowFromRanksAndAgents) {
  const View view = FiveMembers();
  const Member& last = view.members[4];
  EXPECT_EQ(last.local_rank, 1);
  EXPECT_EQ(last.local_size, 2);
  EXPECT_EQ(last.cross_rank, 1);
  EXPECT_EQ(last.cross_size, 2);
  EXPECT_EQ(view.members[3].local_rank, 2);
  EXPECT_EQ(view.members[3].cross_size, 1);
}

TEST(HostedViewTest, AViewPassesUnchanged) {
  const View view = FiveMembers();
  const HostedView hosted = ByHost(view);
  ASSERT_THAT(hosted.hosts, SizeIs(2));
  EXPECT_THAT(hosted.hosts[0].ranks, ElementsAre(Rank(0), Rank(2), Rank(3)));
  View back;
  EXPECT_EQ(ByRank(hosted, &back), nullptr);
  EXPECT_EQ(back.generation, view.generation);
  EXPECT_EQ(back.data_key, "k");
  ASSERT_THAT(back.members, SizeIs(5));
  for (int r = 0; r < 5; ++r) {
    const Member& a = view.members[r];
    const Member& b = back.members[r];
    EXPECT_EQ(Describe(a), Describe(b));
    EXPECT_EQ(a.agent_id, b.agent_id);
    EXPECT_EQ(a.worker_incarnation, b.worker_incarnation);
    EXPECT_EQ(a.local_rank, b.local_rank);
    EXPECT_EQ(a.local_size, b.local_size);
    EXPECT_EQ(a.cross_rank, b.cross_rank);
    EXPECT_EQ(a.cross_size, b.cross_size);
  }
}

TEST(HostedViewTest, WhatIsNoViewIsRefused) {
  const auto refused = [](void (*spoil)(HostedView*)) {
    HostedView hosted = ByHost(FiveMembers());
    spoil(&hosted);
    View view;
    return ByRank(hosted, &view) != nullptr;
  };
  EXPECT_FALSE(refused([](HostedView*) {}));
  EXPECT_TRUE(refused([](HostedView* v) { v->hosts[0].ranks[0] = Rank(1); }));
  EXPECT_TRUE(refused([](HostedView* v) { v->hosts[0].ranks[0] = Rank(5); }));
  EXPECT_TRUE(refused([](HostedView* v) { v->hosts[0].ranks[0] = Rank(-1); }));
  EXPECT_TRUE(refused([](HostedView* v) { v->hosts[1].pids.pop_back(); }));
  EXPECT_TRUE(refused([](HostedView* v) { v->hosts[1].worker_incarnations.push_back(Incarnation(9)); }));
  EXPECT_TRUE(refused([](HostedView* v) { v->hosts.push_back({"empty", "c", {}, {}, {}}); }));
}

}  // namespace
}  // namespace farandole
