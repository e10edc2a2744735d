#include "controller/members/roster.h"

#include <string>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::controller::members {
namespace {

using ::testing::ElementsAre;

// Ranks 0 and 2 behind agent a, rank 1 behind agent b; worker r is incarnation r + 1, pid 100 + r.
Roster MakeRoster() {
  std::vector<Candidate> candidates(3);
  for (int r = 0; r < 3; ++r) {
    candidates[r].hello.rank = Rank(r);
    candidates[r].hello.worker_incarnation = Incarnation(r + 1);
    candidates[r].hello.pid = 100 + r;
    candidates[r].hello.session = 1;
    candidates[r].agent_id = r == 1 ? "b" : "a";
  }
  return Roster(candidates);
}

// "a:1,3", one string per message.
std::vector<std::string> Routes(const Actions& actions) {
  std::vector<std::string> routes;
  for (const Send& send : actions.sends) {
    for (const Route& to : *send.to) {
      std::string route = to.agent_id + ":";
      for (Incarnation i : to.workers) {
        if (route.back() != ':') route += ",";
        route += std::to_string(i.value());
      }
      routes.push_back(route);
    }
  }
  return routes;
}

TEST(RosterTest, AMessageToAllGoesOncePerAgent) {
  Roster roster = MakeRoster();
  Actions actions;
  roster.ToAll(Stable{}, &actions);
  EXPECT_THAT(Routes(actions), ElementsAre("a:1,3", "b:2"));
}

TEST(RosterTest, WhoDoesNotRespondIsSaidAgainThroughTheNextStream) {
  Roster roster = MakeRoster();
  for (int r = 0; r < 3; ++r) {
    roster.mutable_seat(Rank(r)).responsive = false;
    roster.mutable_seat(Rank(r)).unresponsive_cause = "is stopped";
  }
  EXPECT_EQ(roster.Silent().count(), 3);
  roster.mutable_seat(Rank(2)).over = true;  // given up: that stays
  EXPECT_EQ(roster.Silent().count(), 2) << "nobody waits for its answer";
  roster.CloseSessions("a", TimePoint(7));
  EXPECT_TRUE(roster.seat(Rank(0)).responsive);
  EXPECT_EQ(roster.seat(Rank(0)).unresponsive_cause, "");
  EXPECT_EQ(roster.seat(Rank(0)).silent_since, TimePoint()) << "it had fallen silent before";
  EXPECT_FALSE(roster.seat(Rank(1)).responsive);
  EXPECT_THAT(roster.Silent().ToVector(), ElementsAre(Rank(0), Rank(1))) << "nobody can reach rank 0";
  EXPECT_FALSE(roster.seat(Rank(2)).responsive);
}

TEST(RosterTest, ClosedSessionsAndLeaversAreLeftOut) {
  Roster roster = MakeRoster();
  roster.CloseSessions("b", TimePoint(7));
  roster.MarkLeft(Rank(0));
  Actions actions;
  roster.ToAll(Stable{}, &actions);
  EXPECT_THAT(Routes(actions), ElementsAre("a:3"));
  roster.OpenSession(Rank(1), 2, "c");
  Actions again;
  roster.ToAll(Stable{}, &again);
  EXPECT_THAT(Routes(again), ElementsAre("c:2", "a:3"));
}

TEST(RosterTest, SomeMayIncludeALeaver) {
  Roster roster = MakeRoster();
  roster.MarkLeft(Rank(2));
  RankSet some;
  some.Add(Rank(1));
  some.Add(Rank(2));
  Actions actions;
  roster.ToSome(some, Stable{}, &actions);
  EXPECT_THAT(Routes(actions), ElementsAre("b:2", "a:3"));
}

TEST(RosterTest, FindsWorkersAndProcesses) {
  Roster roster = MakeRoster();
  EXPECT_EQ(roster.Find(Incarnation(2)), absl::optional<Rank>(Rank(1)));
  EXPECT_EQ(roster.Find(Incarnation(9)), absl::nullopt);
  EXPECT_EQ(roster.FindProcess("b", 101), absl::optional<Rank>(Rank(1)));
  EXPECT_EQ(roster.FindProcess("a", 101), absl::nullopt);
  EXPECT_THAT(roster.Behind("a"), ElementsAre(Rank(0), Rank(2)));
  roster.MarkLeft(Rank(1));
  EXPECT_EQ(roster.FindProcess("b", 101), absl::optional<Rank>(Rank(1)));
  roster.LetGo(Rank(1));
  EXPECT_EQ(roster.FindProcess("b", 101), absl::nullopt);
  EXPECT_FALSE(roster.AllGone());
  roster.MarkLeft(Rank(0));
  roster.LetGo(Rank(0));
  EXPECT_FALSE(roster.all_let_go());
  roster.mutable_seat(Rank(2)).over = true;
  EXPECT_TRUE(roster.AllGone());
}

}  // namespace
}  // namespace farandole::controller::members
