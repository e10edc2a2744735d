#include "controller/job/joining.h"

#include <string>
#include <variant>
#include <vector>

#include "gtest/gtest.h"

namespace farandole::controller::job {
namespace {

constexpr TimePoint kNow(1000);

class JoiningTest : public ::testing::Test {
 protected:
  JoiningTest() { agents_.Connect({"a", "h", "0.1.0", 0}, kNow); }
  static Hello HelloOf(uint64_t worker, int rank, int size) {
    Hello hello;
    hello.session = 1;
    hello.worker_incarnation = Incarnation(worker);
    hello.pid = static_cast<int64_t>(100 + worker);
    hello.version = "0.1.0";
    hello.rank = Rank(rank);
    hello.size = size;
    return hello;
  }
  static Hello Elastic(uint64_t worker) {
    Hello hello = HelloOf(worker, -1, 2);
    hello.elastic.min_size = 1;
    hello.elastic.max_size = 2;
    return hello;
  }
  Actions Says(const Hello& hello, const Present& present = {}) {
    Actions actions;
    joining_.OnHello("a", hello, present, kNow, &actions);
    return actions;
  }
  template <typename Message>
  static Message Answer(const Actions& actions) {
    EXPECT_EQ(actions.sends.size(), 1u);
    return std::get<Message>(std::get<WorkerDown>(actions.sends.at(0).message));
  }
  // A generation of ranks 0 and 1, workers 5 and 6.
  members::Roster Opened() {
    Says(HelloOf(5, 0, 2));
    Says(HelloOf(6, 1, 2));
    const std::vector<members::Candidate> members = joining_.Choose({}, false, kNow);
    EXPECT_EQ(members.size(), 2u);
    members::Roster roster(members);
    joining_.Begun(members, roster);
    return roster;
  }

  JobConfig config_;
  members::AgentTable agents_{3000, 30000};
  members::GenerationCount generations_{4};
  Joining joining_{&config_, &agents_, &generations_};
};

TEST_F(JoiningTest, TheNextGenerationIsMadeOfAllOnceTheyAreThere) {
  const Welcome welcome = Answer<Welcome>(Says(HelloOf(5, 0, 2)));
  EXPECT_EQ(welcome.missing_ranks, std::vector<Rank>{Rank(1)});
  EXPECT_TRUE(joining_.Choose({}, false, kNow).empty());
  Says(HelloOf(6, 1, 2));
  EXPECT_TRUE(joining_.Choose({}, true, kNow).empty()) << "the last one still has members";
  EXPECT_EQ(joining_.Choose({}, false, kNow).size(), 2u);
  EXPECT_TRUE(joining_.waiting().candidates().empty());
}

WorkerEnded RankEnded(int rank) {
  WorkerEnded ended;
  ended.pid = 7;
  ended.cause = "exited with code 0";
  ended.rank = Rank(rank);
  return ended;
}

constexpr char kInVain[] = "rank 1 (pid 7 on host h) exited with code 0, so that nobody calls init() for it";

TEST_F(JoiningTest, NobodyWaitsForARankWhoseProcessHasEnded) {
  Says(HelloOf(5, 0, 3));
  Actions actions;
  joining_.OnRankEnded("a", RankEnded(1), &actions);
  const Removed removed = Answer<Removed>(actions);
  EXPECT_EQ(removed.kind, RemovedKind::kPeerLost) << "it is not at fault itself";
  EXPECT_EQ(removed.reason, kInVain);
  EXPECT_TRUE(joining_.waiting().candidates().empty());
  // Later ones are told as well, until somebody comes for it all the same.
  EXPECT_EQ(Answer<Removed>(Says(HelloOf(6, 2, 3))).reason, kInVain);
  Answer<Welcome>(Says(HelloOf(7, 1, 3)));
  Answer<Welcome>(Says(HelloOf(6, 2, 3)));
  // Who waits already is not waited for in vain, whatever becomes of the process that was started for it.
  Actions none;
  joining_.OnRankEnded("a", RankEnded(1), &none);
  EXPECT_TRUE(none.sends.empty());
}

TEST_F(JoiningTest, OfSeveralRanksThatHaveEndedTheFirstIsNamed) {
  Actions actions;
  for (int rank : {9, 1, 2}) joining_.OnRankEnded("a", RankEnded(rank), &actions);
  EXPECT_EQ(Answer<Removed>(Says(HelloOf(5, 0, 3))).reason, kInVain);
  EXPECT_TRUE(actions.sends.empty());
}

TEST_F(JoiningTest, ARankThatHasEndedIsNothingToOtherJobs) {
  Actions actions;
  joining_.OnRankEnded("a", RankEnded(-1), &actions);
  joining_.OnRankEnded("a", RankEnded(2), &actions);
  Answer<Welcome>(Says(HelloOf(5, 0, 2)));
  Says(HelloOf(6, 1, 2));
  EXPECT_EQ(joining_.Choose({}, false, kNow).size(), 2u);
  Answer<Welcome>(Says(Elastic(8)));
  EXPECT_TRUE(actions.sends.empty());
}

TEST_F(JoiningTest, WhoCannotBeAMemberIsRefusedInWords) {
  const members::Roster roster = Opened();
  const Present runs{&roster, true};
  EXPECT_EQ(Answer<Removed>(Says(HelloOf(7, 1, 2), runs)).kind, RemovedKind::kRefused);
  EXPECT_NE(Says(HelloOf(7, -1, 2), runs).reason.find("all 2 ranks are held by live processes"), std::string::npos);
  Hello impossible = HelloOf(7, 1, 2);
  impossible.elastic.previous_generation = members::GenerationCount::kToldMax + 1;
  EXPECT_NE(Says(impossible).reason.find("which is impossible; the last generation of this job is 4"),
            std::string::npos);
  Hello variables = HelloOf(7, 1, 2);
  variables.variables.push_back({"HOROVOD_FUSION_THRESHOLD", "many"});
  EXPECT_NE(Says(variables).reason.find("HOROVOD_FUSION_THRESHOLD"), std::string::npos);
  EXPECT_TRUE(joining_.waiting().candidates().empty());
  Says(HelloOf(8, 1, 2), {&roster, false});
  EXPECT_EQ(joining_.waiting().candidates().size(), 1u) << "beside one that is over";
}

TEST_F(JoiningTest, WhoCameWhileItsRankWasHeldIsRefusedLater) {
  const members::Roster roster = Opened();
  Says(HelloOf(7, 1, 2), {&roster, false});
  Actions actions;
  joining_.RefuseHeld(roster, &actions);
  EXPECT_EQ(Answer<Removed>(actions).kind, RemovedKind::kRefused);
  EXPECT_TRUE(joining_.waiting().candidates().empty());
}

TEST_F(JoiningTest, WhoEndsWhileItWaitsIsForgottenIfItsOwnAgentSaysSo) {
  Says(HelloOf(5, 0, 2));
  Actions actions;
  EXPECT_FALSE(joining_.OnEnded("a", {Incarnation(6), 106, "ended"}, &actions)) << "nobody waits";
  EXPECT_TRUE(joining_.OnEnded("b", {Incarnation(5), 105, "ended"}, &actions));
  EXPECT_EQ(joining_.waiting().candidates().size(), 1u);
  EXPECT_TRUE(joining_.OnEnded("a", {Incarnation(5), 105, "ended"}, &actions));
  EXPECT_TRUE(joining_.waiting().candidates().empty());
  EXPECT_EQ(actions.reason, "pid 105 on host h ended while it waited to join");
}

TEST_F(JoiningTest, AnElasticJobTellsItsMembersWhoWaitsAndLetsTheRetiredGo) {
  Says(Elastic(5));
  const std::vector<members::Candidate> members = joining_.Choose({}, false, kNow.PlusMs(3600000));
  ASSERT_EQ(members.size(), 1u) << "the least that may be, after the wait for more";
  const members::Roster roster(members);
  joining_.Begun(members, roster);
  EXPECT_TRUE(joining_.elastic());
  EXPECT_FALSE(joining_.Told());

  const Present runs{&roster, true};
  const Welcome welcome = Answer<Welcome>(Says(Elastic(6), runs));
  EXPECT_EQ(welcome.waiting, 0u) << "a generation runs";
  const auto changes = joining_.Changes(roster);
  ASSERT_TRUE(changes);
  EXPECT_EQ(changes->added, 1u);
  EXPECT_FALSE(joining_.Changes(roster)) << "they know";
  ASSERT_TRUE(joining_.Told());
  EXPECT_EQ(joining_.Told()->added, 1u);

  Actions actions;
  joining_.OnRetire("b", {Incarnation(6)}, runs, &actions);
  EXPECT_EQ(joining_.waiting().candidates().size(), 1u) << "another agent's";
}

TEST_F(JoiningTest, WhoComesAfterItsRunWasFinishedIsTurnedAway) {
  agents_.Connect({"a", "h", "0.1.0", 0, "run"}, kNow);
  agents_.Connect({"b", "h2", "0.1.0", 0, "next run"}, kNow);
  Says(Elastic(5));
  Says(Elastic(6));
  const std::vector<members::Candidate> members = joining_.Choose({}, false, kNow);
  const members::Roster roster(members);
  joining_.Begun(members, roster);
  generations_.Next();
  const Present over{&roster, false};
  Hello waits = Elastic(7);
  Says(waits, over);
  Actions actions;
  WorkerEnded left{Incarnation(5), 105, "exited with code 3", true};
  joining_.OnEnded("a", left, &actions);
  EXPECT_TRUE(actions.sends.empty()) << "it has failed";
  left.finished = true;
  left.pid = 106;
  joining_.OnEnded("a", left, &actions);
  const Removed removed = Answer<Removed>(actions);
  EXPECT_EQ(removed.kind, RemovedKind::kRetired);
  EXPECT_EQ(removed.reason, "the job is over: pid 106 on host h has finished");
  EXPECT_EQ(joining_.finished().run, "run");
  EXPECT_EQ(Answer<Removed>(Says(Elastic(8), over)).reason, removed.reason);
  // A member of the last generation has still something to do: it goes on as in any elastic job.
  Hello survivor = Elastic(9);
  survivor.elastic.previous_generation = generations_.last();
  Answer<Welcome>(Says(survivor, over));
  Hello older = Elastic(10);
  older.elastic.previous_generation = 1;
  EXPECT_EQ(Answer<Removed>(Says(older, over)).reason, removed.reason) << "it missed the last generation";
  Actions of_next;
  joining_.OnHello("b", Elastic(11), over, kNow, &of_next);
  Answer<Welcome>(of_next);
}

TEST_F(JoiningTest, AnotherRunWaitsForTheEndOfThisOne) {
  agents_.Connect({"a", "h", "0.1.0", 0, "run"}, kNow);
  agents_.Connect({"b", "h2", "0.1.0", 0, "next"}, kNow);
  agents_.Connect({"c", "h3", "0.1.0", 0, "third"}, kNow);
  Says(Elastic(5));
  Says(Elastic(6));
  const std::vector<members::Candidate> members = joining_.Choose({}, false, kNow);
  const members::Roster roster(members);
  joining_.Begun(members, roster);
  const Present runs{&roster, true}, over{&roster, false};
  Actions actions, third;
  Hello waits = Elastic(8);
  waits.elastic.settle_ms = 1000;
  joining_.OnHello("b", waits, runs, kNow, &actions);
  EXPECT_EQ(Answer<Welcome>(actions).waiting, 0u);
  EXPECT_FALSE(joining_.Changes(roster)) << "it is nobody to hand the state to";
  joining_.OnHello("c", Elastic(9), runs, kNow, &third);
  EXPECT_EQ(Answer<Removed>(third).kind, RemovedKind::kPeerLost) << "another attempt may help";
  EXPECT_TRUE(joining_.HasAgent("b"));
  EXPECT_FALSE(joining_.Empty());
  // The members may come back.
  EXPECT_TRUE(joining_.Choose(over, false, kNow.PlusMs(60000)).empty());
  Actions ends;
  for (uint64_t worker : {5, 6}) {
    joining_.OnEnded("a", {Incarnation(worker), static_cast<int64_t>(100 + worker), "exited", true}, &ends);
  }
  EXPECT_TRUE(joining_.Choose(over, false, kNow.PlusMs(60000)).empty()) << "more may come for two from now on";
  const std::vector<members::Candidate> next = joining_.Choose(over, false, kNow.PlusMs(61000));
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0].agent_id, "b");
  EXPECT_TRUE(joining_.Empty());
}

TEST_F(JoiningTest, ARunThatWasFinishedBeforeTheJobWasForgottenStaysSo) {
  config_.finished = {"run", "done"};
  Joining again(&config_, &agents_, &generations_);
  agents_.Connect({"a", "h", "0.1.0", 0, "run"}, kNow);
  Actions actions;
  again.OnHello("a", Elastic(5), {}, kNow, &actions);
  EXPECT_EQ(Answer<Removed>(actions).reason, "done");
}

TEST_F(JoiningTest, MembersOfTheGenerationOfAnEarlierControllerMayComeFirst) {
  joining_.OnAgent(0, kNow);
  Says(Elastic(5));
  EXPECT_NE(joining_.Deadline(), kNow.PlusMs(1000)) << "this controller has always been there";
  config_.serves_since = kNow;
  Joining young(&config_, &agents_, &generations_);
  const auto says = [&](uint64_t worker) {
    Actions actions;
    young.OnHello("a", Elastic(worker), {}, kNow, &actions);
  };
  young.OnAgent(0, kNow);
  says(5);
  says(6);
  EXPECT_TRUE(young.Choose({}, false, kNow.PlusMs(999)).empty());
  EXPECT_EQ(young.Deadline(), kNow.PlusMs(1000));
  young.OnAgent(config_.controller_incarnation, kNow);
  EXPECT_EQ(young.Deadline(), kNow.PlusMs(1000)) << "its own agent";
  young.OnAgent(config_.controller_incarnation + 1, kNow);
  EXPECT_EQ(young.Deadline(), kNow.PlusMs(3000)) << "another controller had agents";
  young.OnAgent(config_.controller_incarnation + 1, kNow.PlusMs(1));
  EXPECT_EQ(young.Deadline(), kNow.PlusMs(3000)) << "as long as one may be silent, and no longer";
  EXPECT_TRUE(young.Choose({}, false, kNow.PlusMs(2999)).empty());
  const std::vector<members::Candidate> members = young.Choose({}, false, kNow.PlusMs(3000));
  ASSERT_EQ(members.size(), 2u);
  young.Begun(members, members::Roster(members));
  young.OnAgent(config_.controller_incarnation + 1, kNow);
  EXPECT_EQ(young.Deadline(), TimePoint::Infinite()) << "once one has begun here";
}

TEST_F(JoiningTest, AfterARestartTheRunOfFormerMembersIsThePresentOne) {
  agents_.Connect({"a", "h", "0.1.0", 0, "run"}, kNow);
  agents_.Connect({"b", "h2", "0.1.0", 0, "next"}, kNow);
  agents_.Connect({"c", "h3", "0.1.0", 0, "third"}, kNow);
  Actions next, third, refused;
  joining_.OnHello("b", Elastic(8), {}, kNow, &next);
  joining_.OnHello("c", Elastic(9), {}, kNow, &third);
  Answer<Welcome>(next);
  Answer<Welcome>(third);
  // There is one place for those who wait for the end of a run.
  Hello member = Elastic(5);
  member.elastic.previous_generation = 3;
  joining_.OnHello("a", member, {}, kNow, &refused);
  ASSERT_EQ(refused.sends.size(), 2u);
  EXPECT_EQ(std::get<Removed>(std::get<WorkerDown>(refused.sends[0].message)).kind, RemovedKind::kPeerLost);
  EXPECT_EQ(refused.sends[0].to->front().agent_id, "b");
  member.worker_incarnation = Incarnation(6);
  member.pid = 106;
  Says(member);
  const std::vector<members::Candidate> members = joining_.Choose({}, false, kNow);
  ASSERT_EQ(members.size(), 2u);
  EXPECT_EQ(members[0].agent_id, "a");
  EXPECT_TRUE(joining_.HasAgent("c"));
}

TEST_F(JoiningTest, NobodyJoinsARunThatWasFinishedBeforeTheLastOne) {
  agents_.Connect({"b", "h2", "0.1.0", 0, "next"}, kNow);
  for (const auto& [agent, run] : {std::make_pair("a", "run"), std::make_pair("b", "next")}) {
    agents_.Connect({agent, "h", "0.1.0", 0, run}, kNow);
    Actions actions;
    WorkerEnded left{Incarnation(5), 105, "exited with code 0", true};
    left.finished = true;
    joining_.OnEnded(agent, left, &actions);
  }
  EXPECT_EQ(joining_.finished().run, "next");
  EXPECT_EQ(Answer<Removed>(Says(Elastic(6))).kind, RemovedKind::kRetired);
}

// A job without a greatest size, generation after generation.
class ElasticJoiningTest : public JoiningTest {
 protected:
  ElasticJoiningTest() {
    for (const char* agent : {"b", "c"}) agents_.Connect({agent, agent, "0.1.0", 0}, kNow);
  }
  // `rank` in the last generation, -1: it has been in none yet.
  void Comes(const char* agent, uint64_t worker, int64_t pid, int rank, const Present& present) {
    Comes(agent, worker, pid, rank, present, generations_.last(), generations_.last());
  }
  void Comes(const char* agent, uint64_t worker, int64_t pid, int rank, const Present& present, uint64_t previous,
             uint64_t state) {
    Hello hello = Elastic(worker);
    hello.elastic.max_size = 0;
    hello.pid = pid;
    hello.elastic.settle_ms = 1000;
    hello.elastic.previous_generation = rank < 0 ? 0 : previous;
    hello.elastic.previous_rank = Rank(rank);
    hello.elastic.state_generation = rank < 0 ? 0 : state;
    Actions actions;
    joining_.OnHello(agent, hello, present, kNow, &actions);
  }
  std::vector<members::Candidate> Opens(const Present& present) {
    const std::vector<members::Candidate> members = joining_.Choose(present, false, kNow);
    joining_.Begun(members, members::Roster(members));
    generations_.Next();
    return members;
  }
  // The agent says it of what the process is now, and of what it becomes.
  void IsToLeave(const char* agent, uint64_t worker, uint64_t next, const Present& present) {
    Actions actions;
    for (uint64_t each : {worker, next}) joining_.OnRetire(agent, {Incarnation(each)}, present, &actions);
  }
  // One of two that is to leave says what cannot be: the other one begins without it.
  void ClaimsInVain(uint64_t previous, uint64_t state) {
    Comes("a", 1, 'a', -1, {});
    Comes("b", 2, 'b', -1, {});
    const members::Roster first(Opens({}));
    IsToLeave("a", 1, 11, {&first, true});
    Comes("a", 11, 'a', 0, {&first, false}, previous, state);
    Comes("b", 12, 'b', 1, {&first, false}, 1, 1);
    const std::vector<members::Candidate> last = joining_.Choose({&first, false}, false, kNow);
    ASSERT_EQ(last.size(), 1u);
    EXPECT_EQ(last[0].hello.pid, 'b');
  }
  static void Leaves(members::Roster* roster, int rank) {
    roster->MarkLeft(Rank(rank));
    roster->LetGo(Rank(rank));
  }
};

// A newcomer stands beside rank 0, on its host, and before the others.
TEST_F(ElasticJoiningTest, WhoWasNotHandedTheStateDoesNotHandItOn) {
  Comes("a", 1, 101, -1, {});
  Comes("b", 2, 102, -1, {});
  members::Roster first(Opens({}));
  for (int rank : {0, 1}) Leaves(&first, rank);
  Comes("a", 11, 101, 0, {&first, false});
  Comes("b", 12, 102, 1, {&first, false});
  EXPECT_TRUE(joining_.waiting().elastic());
  Actions actions;
  Comes("a", 13, 103, -1, {&first, true});
  const std::vector<members::Candidate> grown = Opens({&first, false});
  ASSERT_EQ(grown.size(), 3u);
  ASSERT_EQ(grown[1].hello.pid, 103) << "beside rank 0";
  // Rank 0 dies before anything is handed on.
  const members::Roster second(grown);
  joining_.OnEnded("a", {Incarnation(11), 101, "was killed"}, &actions);
  Comes("a", 23, 103, 1, {&second, false}, 2, 0);
  Comes("b", 22, 102, 2, {&second, false}, 2, 1);
  const std::vector<members::Candidate> left = Opens({&second, false});
  ASSERT_EQ(left.size(), 2u);
  EXPECT_EQ(left[0].hello.pid, 102) << "the others would begin anew";
  // It is to leave, and stays until the other one has the state.
  members::Roster third(left);
  IsToLeave("b", 22, 32, {&third, false});
  Comes("b", 32, 102, 0, {&third, false}, 3, 1);
  Comes("a", 33, 103, 1, {&third, false}, 3, 0);
  const std::vector<members::Candidate> last = Opens({&third, false});
  ASSERT_EQ(last.size(), 2u);
  EXPECT_EQ(last[0].hello.pid, 102);
}

// It missed the last generation, whose only other member never had anything to hand on.
TEST_F(ElasticJoiningTest, AnOlderStateIsBetterThanNone) {
  Comes("a", 1, 101, -1, {});
  Comes("b", 2, 102, -1, {});
  const members::Roster first(Opens({}));
  joining_.OnAgentLost("b");
  Comes("a", 11, 101, 0, {&first, false});
  Comes("c", 13, 103, -1, {&first, false});
  const members::Roster second(Opens({&first, false}));
  ASSERT_EQ(second.size(), 2);
  Actions actions;
  joining_.OnEnded("a", {Incarnation(11), 101, "was killed"}, &actions);
  agents_.Connect({"b", "b", "0.1.0", 0}, kNow);
  Comes("b", 22, 102, 1, {&second, false}, 1, 1);
  Comes("c", 23, 103, 1, {&second, false}, 2, 0);
  const std::vector<members::Candidate> last = Opens({&second, false});
  ASSERT_EQ(last.size(), 2u);
  EXPECT_EQ(last[0].hello.pid, 102);
  // Had it been handed the state, it would be the newer one.
  members::Roster third(last);
  Comes("b", 32, 102, 0, {&third, false}, 3, 1);
  Comes("c", 33, 103, 1, {&third, false}, 3, 2);
  EXPECT_EQ(Opens({&third, false})[0].hello.pid, 103);
}

// All hosts are exchanged at once. Those that leave come back one by one, the first ones before the last newcomer has
// left the generation in which it was handed the state.
TEST_F(ElasticJoiningTest, WhoIsToLeaveIsNotTakenInOnceNewcomersHaveTheState) {
  Comes("a", 1, 101, -1, {});
  Comes("b", 2, 102, -1, {});
  members::Roster first(Opens({}));
  for (int rank : {0, 1}) Leaves(&first, rank);
  Comes("a", 11, 101, 0, {&first, false});
  Comes("b", 12, 102, 1, {&first, false});
  Comes("c", 13, 103, -1, {&first, true});
  const std::vector<members::Candidate> grown = Opens({&first, false});
  ASSERT_EQ(grown.size(), 3u);
  members::Roster second(grown);
  Actions actions;
  joining_.OnRetire("a", {Incarnation(11)}, {&second, true}, &actions);
  joining_.OnRetire("b", {Incarnation(12)}, {&second, true}, &actions);
  for (int rank : {0, 1}) {
    Leaves(&second, rank);
    Comes(rank == 0 ? "a" : "b", 11 + rank, 101 + rank, rank, {&second, true});
  }
  Leaves(&second, 2);
  Comes("c", 23, 103, 2, {&second, false});
  const std::vector<members::Candidate> last = joining_.Choose({&second, false}, false, kNow);
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(last[0].hello.pid, 103);
}

// Of three members one is killed after it alone was handed the newest state, which the others have from before or
// never.
TEST_F(ElasticJoiningTest, WhoIsToLeaveStaysIfNobodyElseHasAState) {
  Comes("a", 1, 'a', -1, {});
  Comes("b", 2, 'b', -1, {});
  const members::Roster first(Opens({}));
  Actions actions;
  Comes("a", 11, 'a', 0, {&first, false}, 1, 1);
  Comes("b", 12, 'b', 1, {&first, false}, 1, 0);
  Comes("c", 13, 'c', -1, {&first, false});
  const members::Roster second(Opens({&first, false}));
  ASSERT_EQ(second.size(), 3);
  Comes("a", 21, 'a', 0, {&second, false}, 2, 2);
  Comes("b", 22, 'b', 1, {&second, false}, 2, 1);
  Comes("c", 23, 'c', 2, {&second, false}, 2, 0);
  const members::Roster third(Opens({&second, false}));
  ASSERT_EQ(third.size(), 3);
  IsToLeave("b", 22, 32, {&third, true});
  joining_.OnEnded("a", {Incarnation(21), 'a', "was killed"}, &actions);
  Comes("c", 33, 'c', 2, {&third, false}, 3, 0);
  EXPECT_TRUE(joining_.Choose({&third, false}, false, kNow).empty()) << "the others would begin anew";
  Comes("b", 32, 'b', 1, {&third, false}, 3, 1);
  const std::vector<members::Candidate> last = Opens({&third, false});
  ASSERT_EQ(last.size(), 2u);
  EXPECT_EQ(last[0].hello.pid, 'b');
}

TEST_F(ElasticJoiningTest, AControllerThatWasStartedAgainLearnsWhoHasTheState) {
  std::vector<members::Candidate> members;
  recovery::Recovered found;
  for (int rank : {0, 1}) {
    Hello hello = Elastic(rank + 1);
    hello.rank = Rank(rank);
    hello.elastic.max_size = 0;
    hello.elastic.settle_ms = 1000;
    hello.elastic.previous_generation = hello.elastic.state_generation = rank == 0 ? 1 : 0;
    members.push_back({hello, rank == 0 ? "a" : "b", "h", true, kNow});
    found.members.emplace_back();
    found.members.back().present = true;
    found.members.back().hello = hello;
  }
  const members::Roster roster(members);
  found.view.members = roster.members();
  Actions actions;
  joining_.Restored(found, &actions);
  IsToLeave("a", 1, 11, {&roster, true});
  Comes("b", 12, 102, 1, {&roster, false}, 2, 0);
  EXPECT_TRUE(joining_.Choose({&roster, false}, false, kNow).empty()) << "it would begin anew";
  Comes("a", 11, 101, 0, {&roster, false}, 2, 1);
  const std::vector<members::Candidate> last = Opens({&roster, false});
  ASSERT_EQ(last.size(), 2u);
  EXPECT_EQ(last[0].hello.pid, 101);
}

TEST_F(ElasticJoiningTest, WhoClaimsAStateOfALaterMembershipThanItsOwnKeepsNobodyInTheJob) { ClaimsInVain(1, 3); }

TEST_F(ElasticJoiningTest, WhoClaimsAStateOfAMembershipThatNeverWasKeepsNobodyInTheJob) {
  ClaimsInVain(uint64_t{1} << 60, uint64_t{1} << 60);
}

// All have left the generation, but one of them before it was handed the state: it says so.
TEST_F(ElasticJoiningTest, WhoComesBackSaysWhetherItHasTheState) {
  Comes("a", 1, 'a', -1, {});
  Comes("b", 2, 'b', -1, {});
  members::Roster first(Opens({}));
  IsToLeave("a", 1, 11, {&first, true});
  for (int rank : {0, 1}) Leaves(&first, rank);
  EXPECT_TRUE(joining_.Choose({&first, false}, false, kNow).empty());
  Comes("b", 12, 'b', 1, {&first, false}, 1, 0);
  Comes("a", 11, 'a', 0, {&first, false}, 1, 1);
  const std::vector<members::Candidate> last = Opens({&first, false});
  ASSERT_EQ(last.size(), 2u);
  EXPECT_EQ(last[0].hello.pid, 'a') << "it is to leave, and has what the other one lacks";
}

TEST_F(JoiningTest, AHelloThatIsRefusedThrowsNobodyOut) {
  for (const char* run : {"one", "two", "three"}) agents_.Connect({run, run, "0.1.0", 0, run}, kNow);
  Actions actions;
  joining_.OnHello("one", Elastic(5), {}, kNow, &actions);
  joining_.OnHello("two", Elastic(6), {}, kNow, &actions);
  Hello impossible = Elastic(7);
  impossible.elastic.previous_generation = ~uint64_t{0};
  Actions refusal;
  joining_.OnHello("three", impossible, {}, kNow, &refusal);
  EXPECT_EQ(Answer<Removed>(refusal).kind, RemovedKind::kRefused) << "and nothing is said to anybody else";
  impossible.elastic.previous_generation = 0;
  impossible.elastic.state_generation = 1;
  Actions another;
  joining_.OnHello("three", impossible, {}, kNow, &another);
  EXPECT_EQ(Answer<Removed>(another).reason,
            "it says that it had the state in generation 1, which is impossible; the last one that it was in is 0");
  EXPECT_NE(joining_.Find(Incarnation(5)), nullptr);
  EXPECT_NE(joining_.Find(Incarnation(6)), nullptr);
}

TEST_F(JoiningTest, ARunGoesOnAlthoughTheAgentOfItsFirstMemberHasGone) {
  agents_.Connect({"a", "h", "0.1.0", 0, "run"}, kNow);
  Says(Elastic(5));
  recovery::Recovered found;
  for (const auto& [worker, agent] : {std::make_pair(3, "gone"), std::make_pair(4, "a")}) {
    Member member;
    member.rank = Rank(static_cast<int32_t>(found.view.members.size()));
    member.agent_id = agent;
    member.pid = 100 + worker;
    found.view.members.push_back(member);
    recovery::Registered registered;
    registered.present = true;
    registered.hello = Elastic(worker);
    found.members.push_back(registered);
  }
  Actions actions;
  joining_.Restored(found, &actions);
  EXPECT_EQ(joining_.waiting().candidates().size(), 1u) << "it waits for the end of its own run";
}

TEST_F(JoiningTest, WithoutARunNobodyIsTurnedAwayBecauseOneHasFinished) {
  Actions actions;
  WorkerEnded left{Incarnation(5), 105, "exited with code 0", true};
  left.finished = true;
  joining_.OnEnded("a", left, &actions);
  Answer<Welcome>(Says(Elastic(6)));
}

TEST_F(JoiningTest, ARetiredNewcomerIsTurnedAwayOnce) {
  Says(Elastic(5));
  const std::vector<members::Candidate> members = joining_.Choose({}, false, kNow.PlusMs(3600000));
  const members::Roster roster(members);
  joining_.Begun(members, roster);
  const Present runs{&roster, true};
  Says(Elastic(6), runs);
  Actions actions;
  joining_.OnRetire("a", {Incarnation(6)}, runs, &actions);
  EXPECT_EQ(Answer<Removed>(actions).kind, RemovedKind::kRetired);
  EXPECT_TRUE(joining_.waiting().candidates().empty());
  EXPECT_EQ(Answer<Removed>(Says(Elastic(6), runs)).kind, RemovedKind::kRetired) << "comes again";

  Actions leaves;
  joining_.OnRetire("a", {Incarnation(5)}, runs, &leaves);
  EXPECT_TRUE(leaves.sends.empty());
  EXPECT_NE(leaves.reason.find("is to leave"), std::string::npos) << leaves.reason;
}

}  // namespace
}  // namespace farandole::controller::job
