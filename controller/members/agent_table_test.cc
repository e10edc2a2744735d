#include "controller/members/agent_table.h"

#include "gtest/gtest.h"

namespace farandole::controller::members {
namespace {

TimePoint At(int64_t ms) { return TimePoint(0).PlusMs(ms); }

TEST(AgentTableTest, SilenceIsSuspicionThenTheEnd) {
  AgentTable agents(3000, 10000);
  agents.Connect({"a", "h", ""}, At(0));
  EXPECT_EQ(agents.NextDeadline(), At(3000));
  EXPECT_TRUE(agents.Tick(At(2999)).empty());
  EXPECT_TRUE(agents.Heard("a", At(2999)));
  EXPECT_TRUE(agents.Tick(At(3000)).empty());
  EXPECT_EQ(agents.NextDeadline(), At(5999));
  EXPECT_EQ(agents.Suspicion("a", At(5998)), "");
  const auto suspect = agents.Tick(At(5999));
  ASSERT_EQ(suspect.size(), 1u);
  EXPECT_FALSE(suspect[0].given_up);
  EXPECT_EQ(agents.Suspicion("a", At(6000)), "the agent on host h has been silent for 3 s");
  EXPECT_EQ(agents.NextDeadline(), At(12999));
  const auto lost = agents.Tick(At(12999));
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_TRUE(lost[0].given_up);
  EXPECT_EQ(agents.NextDeadline(), TimePoint::Infinite());
  EXPECT_TRUE(agents.Heard("a", At(13000)));
  EXPECT_EQ(agents.Suspicion("a", At(13000)), "");
  EXPECT_EQ(agents.NextDeadline(), At(16000));
}

TEST(AgentTableTest, ALostStreamIsSuspicionAtOnce) {
  AgentTable agents(3000, 10000);
  agents.Connect({"a", "h", ""}, At(0));
  agents.Disconnect("a", At(1000));
  EXPECT_FALSE(agents.Connected("a"));
  EXPECT_FALSE(agents.AnyConnected());
  EXPECT_FALSE(agents.Heard("a", At(1500)));
  EXPECT_EQ(agents.Suspicion("a", At(2000)), "the connection of the agent on host h was lost 1 s ago");
  EXPECT_TRUE(agents.Tick(At(3000)).empty());
  EXPECT_EQ(agents.NextDeadline(), At(10000));
  ASSERT_EQ(agents.Tick(At(10000)).size(), 1u);
}

AgentHello Pod(const std::string& id) { return {id, "h", "", 0, "run", true}; }

TEST(AgentTableTest, OneThatTakesItsWorkersAlongMayBeGivenUpSoon) {
  AgentTable agents(3000, 30000);
  agents.Connect(Pod("a"), At(0));
  EXPECT_EQ(agents.Run("a"), "run");
  EXPECT_EQ(agents.Run("other"), "");
  agents.GiveUpSoon("a", 500);
  agents.Disconnect("a", At(1000));
  EXPECT_EQ(agents.closed_with_workers(), std::set<std::string>{"a"});
  EXPECT_TRUE(agents.Tick(At(2000)).empty()) << "it was connected when that was asked";
  agents.GiveUpSoon("a", 2000);
  agents.GiveUpSoon("a", 1500);
  agents.GiveUpSoon("a", 2000);
  EXPECT_EQ(agents.NextDeadline(), At(2500));
  EXPECT_TRUE(agents.Tick(At(2499)).empty());
  const auto lost = agents.Tick(At(2500));
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_TRUE(lost[0].given_up);
  EXPECT_EQ(lost[0].text, "the connection of the agent on host h was lost 1500 ms ago, and its workers end with it");
  EXPECT_TRUE(agents.closed_with_workers().empty());
}

TEST(AgentTableTest, OneThatComesBackIsNotGivenUp) {
  AgentTable agents(3000, 30000);
  agents.Connect(Pod("a"), At(0));
  agents.Disconnect("a", At(1000));
  agents.GiveUpSoon("a", 500);
  agents.Connect(Pod("a"), At(1499));
  EXPECT_TRUE(agents.closed_with_workers().empty());
  EXPECT_TRUE(agents.Tick(At(1500)).empty());
  EXPECT_TRUE(agents.Tick(At(4498)).empty());
}

TEST(AgentTableTest, TimeInWhichNobodyWasHeardDoesNotCountForOneThatIsGivenUpSoon) {
  AgentTable agents(3000, 30000);
  agents.Connect(Pod("a"), At(0));
  agents.Disconnect("a", At(1000));
  agents.GiveUpSoon("a", 500);
  agents.StoodStill(10000, At(11000));
  EXPECT_TRUE(agents.Tick(At(11000)).empty());
  EXPECT_EQ(agents.Tick(At(11500)).size(), 1u);
}

TEST(AgentTableTest, OneThatTheNetworkHadSilencedIsNotGivenUpSoon) {
  AgentTable agents(3000, 30000);
  agents.Connect(Pod("a"), At(0));
  agents.Disconnect("a", At(3000));
  EXPECT_TRUE(agents.closed_with_workers().empty());
  agents.GiveUpSoon("a", 500);
  EXPECT_TRUE(agents.Tick(At(29999)).empty());
}

TEST(AgentTableTest, OneWhoseWorkersLiveOnIsNotGivenUpSoon) {
  AgentTable agents(3000, 30000);
  agents.Connect({"a", "h", ""}, At(0));
  agents.Disconnect("a", At(1000));
  EXPECT_TRUE(agents.closed_with_workers().empty());
  agents.GiveUpSoon("a", 500);
  EXPECT_TRUE(agents.Tick(At(20000)).empty());
}

// The loss of a stream may be noticed late.
TEST(AgentTableTest, SilenceBeforeTheLossCounts) {
  AgentTable agents(3000, 10000);
  agents.Connect({"a", "h", ""}, At(0));
  EXPECT_TRUE(agents.Heard("a", At(1000)));
  EXPECT_EQ(agents.Tick(At(4000)).size(), 1u);
  agents.Disconnect("a", At(9000));
  EXPECT_EQ(agents.NextDeadline(), At(11000));
  EXPECT_TRUE(agents.Tick(At(10999)).empty());
  const auto lost = agents.Tick(At(11000));
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_TRUE(lost[0].given_up);
  EXPECT_EQ(lost[0].text, "the connection of the agent on host h was lost 2 s ago, silent for 10 s");
}

TEST(AgentTableTest, OurOwnStandstillIsNobodysSilence) {
  AgentTable agents(3000, 10000);
  agents.Connect({"a", "h", ""}, At(0));
  agents.Connect({"b", "h", ""}, At(0));
  agents.Disconnect("b", At(1000));
  agents.StoodStill(40000, At(43000));
  const auto suspects = agents.Tick(At(43000));
  ASSERT_EQ(suspects.size(), 1u);
  EXPECT_EQ(suspects[0].text, "the agent on host h has been silent for 3 s");
  EXPECT_EQ(agents.Suspicion("b", At(43000)), "the connection of the agent on host h was lost 2 s ago");
  EXPECT_TRUE(agents.Tick(At(49999)).empty());
  EXPECT_EQ(agents.Tick(At(50000)).size(), 2u);
  // Who was heard meanwhile was not heard in the future.
  EXPECT_TRUE(agents.Heard("a", At(60000)));
  agents.StoodStill(5000, At(61000));
  EXPECT_EQ(agents.NextDeadline(), At(63000));
  EXPECT_TRUE(agents.Tick(At(63000)).empty());
  EXPECT_EQ(agents.Tick(At(64000)).size(), 1u);
}

TEST(AgentTableTest, AReturnEndsTheSuspicion) {
  AgentTable agents(3000, 10000);
  agents.Connect({"a", "h", ""}, At(0));
  agents.Disconnect("a", At(1000));
  agents.Connect({"a", "h", ""}, At(9000));
  EXPECT_TRUE(agents.Tick(At(11000)).empty());
  EXPECT_EQ(agents.Suspicion("a", At(11000)), "");
  EXPECT_EQ(agents.Tick(At(12000)).size(), 1u);
}

TEST(AgentTableTest, StrangersAreNobody) {
  AgentTable agents(3000, 10000);
  EXPECT_FALSE(agents.Heard("a", At(0)));
  agents.Disconnect("a", At(0));
  EXPECT_EQ(agents.Host("a"), "");
  EXPECT_EQ(agents.NextDeadline(), TimePoint::Infinite());
}

}  // namespace
}  // namespace farandole::controller::members
