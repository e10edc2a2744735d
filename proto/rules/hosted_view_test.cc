#include "proto/rules/hosted_view.h"

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
  SetPositions(&view.members);
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
  EXPECT_THAT(hosted.hosts[0].pids, ElementsAre(100, 102, 103));
  EXPECT_THAT(hosted.runs, SizeIs(3));
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

View WithHomes(const std::vector<std::pair<const char*, uint32_t>>& members) {
  View view;
  view.generation = {3, 4};
  for (const auto& [agent, home] : members) {
    view.members.push_back(MemberOf(static_cast<int>(view.members.size()), agent));
    view.members.back().home = home;
  }
  SetPositions(&view.members);
  return view;
}

std::vector<int32_t> LocalRanks(const View& view) {
  std::vector<int32_t> ranks;
  for (const Member& member : view.members) ranks.push_back(member.local_rank);
  return ranks;
}

// The first of four has ended: its GPU is free, and no other.
TEST(HostedViewTest, ANewProcessGetsTheLocalRankThatNobodyHadFirst) {
  EXPECT_THAT(LocalRanks(WithHomes({{"a", 2}, {"a", 3}, {"a", 4}, {"a", 0}})), ElementsAre(1, 2, 3, 0));
  // Until it is there, one of the others has to have local rank 0.
  EXPECT_THAT(LocalRanks(WithHomes({{"a", 2}, {"a", 3}, {"a", 4}})), ElementsAre(1, 2, 0));
  EXPECT_THAT(LocalRanks(WithHomes({{"b", 2}, {"b", 0}, {"a", 0}, {"a", 1}})), ElementsAre(1, 0, 1, 0));
}

TEST(HostedViewTest, OfTwoWithOneHomeTheFirstHasIt) {
  EXPECT_THAT(LocalRanks(WithHomes({{"a", 2}, {"a", 2}, {"a", 0}})), ElementsAre(1, 0, 2));
  EXPECT_THAT(LocalRanks(WithHomes({{"a", 0}, {"a", ~uint32_t{0}}})), ElementsAre(0, 1));
}

TEST(HostedViewTest, HomesTravelWhereThereAreAny) {
  const View view = WithHomes({{"a", 0}, {"a", 0}, {"b", 2}, {"b", 0}, {"b", 1}});
  const HostedView hosted = ByHost(view);
  EXPECT_THAT(hosted.hosts[0].homes, ElementsAre());
  EXPECT_THAT(hosted.hosts[1].homes, ElementsAre(2, 0, 1));
  View back;
  ASSERT_EQ(ByRank(hosted, &back), nullptr);
  EXPECT_THAT(LocalRanks(back), ElementsAre(0, 1, 1, 2, 0));
  for (int r = 0; r < 5; ++r) {
    EXPECT_EQ(Describe(back.members[r]), Describe(view.members[r]));
    EXPECT_EQ(back.members[r].cross_rank, view.members[r].cross_rank);
    EXPECT_EQ(back.members[r].cross_size, view.members[r].cross_size);
    EXPECT_EQ(back.members[r].home, view.members[r].home);
  }
  // One local rank of two hosts: cross positions 0 and 1; the third of b stands alone.
  EXPECT_EQ(back.members[2].cross_rank, 1);
  EXPECT_EQ(back.members[3].cross_size, 1);
}

// How launchers place ranks: host by host, or one by one over all hosts.
TEST(HostedViewTest, RegularPlacesTakeFewRuns) {
  for (const bool block : {true, false}) {
    View view;
    for (int r = 0; r < 400; ++r) view.members.push_back(MemberOf(r, std::to_string(block ? r / 4 : r % 100)));
    SetPositions(&view.members);
    const HostedView hosted = ByHost(view);
    EXPECT_THAT(hosted.runs, SizeIs(block ? 1 : 4));
    EXPECT_THAT(hosted.hosts, SizeIs(100));
    View back;
    ASSERT_EQ(ByRank(hosted, &back), nullptr);
    for (int r = 0; r < 400; ++r) {
      EXPECT_EQ(back.members[r].host_number, view.members[r].host_number);
      EXPECT_EQ(Describe(back.members[r]), Describe(view.members[r]));
      EXPECT_EQ(back.members[r].cross_rank, view.members[r].cross_rank);
    }
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
  EXPECT_FALSE(refused([](HostedView* v) { v->hosts.clear(); }));
  EXPECT_TRUE(refused([](HostedView* v) { v->hosts[0].number = 1; }));
  EXPECT_TRUE(refused([](HostedView* v) { v->hosts[1].number = 2; }));
  EXPECT_TRUE(refused([](HostedView* v) { v->hosts[1].pids.pop_back(); }));
  EXPECT_TRUE(refused([](HostedView* v) { v->hosts[1].worker_incarnations.push_back(Incarnation(9)); }));
  EXPECT_TRUE(refused([](HostedView* v) { v->hosts[1].homes = {1}; }));
  EXPECT_TRUE(refused(
      [](HostedView* v) { v->hosts[1].pids.push_back(9), v->hosts[1].worker_incarnations.push_back(Incarnation(9)); }));
  EXPECT_TRUE(refused([](HostedView* v) { v->runs[0].hosts = 0; }));
  EXPECT_TRUE(refused([](HostedView* v) { v->runs[0].ranks_each = 0; }));
  EXPECT_TRUE(refused([](HostedView* v) { v->runs[1].first = 3; }));
  EXPECT_TRUE(refused([](HostedView* v) { v->runs[2].hosts = v->runs[2].ranks_each = 65536; }));
}

}  // namespace
}  // namespace farandole
