#include "controller/job/registration.h"

#include <string>
#include <variant>
#include <vector>

#include "gtest/gtest.h"

namespace farandole::controller::job {
namespace {

constexpr TimePoint kNow(1000);

// A controller of incarnation 9, and workers of generations that one of incarnation 7 or 8 opened.
class RegistrationTest : public ::testing::Test {
 protected:
  RegistrationTest() {
    config_.controller_incarnation = 9;
    config_.size_max = 2;
    agents_.Connect({"a", "h", "0.1.0", 0}, kNow);
  }
  static Hello HelloOf(uint64_t worker, const GenerationId& generation) {
    Hello hello;
    hello.session = 1;
    hello.worker_incarnation = Incarnation(worker);
    hello.pid = static_cast<int64_t>(100 + worker);
    hello.version = "0.1.0";
    hello.size = 2;
    hello.generation = generation;
    hello.knows_all_hosts = true;
    return hello;
  }
  bool Says(uint64_t worker, const GenerationId& generation) {
    const Hello hello = HelloOf(worker, generation);
    if (!registration_.Concerns(hello, kNow, &actions_)) return false;
    registration_.gather()->OnHello("a", hello, &actions_);
    return true;
  }
  // Worker 5 tells that workers 5 and 6 are the members.
  void TellsView(const GenerationId& generation) {
    Recalled recalled;
    recalled.generation = recalled.view.generation = generation;
    for (int r = 0; r < 2; ++r) {
      Member member;
      member.rank = Rank(r);
      member.host = "h";
      member.agent_id = "a";
      member.worker_incarnation = Incarnation(5 + r);
      recalled.view.members.push_back(member);
    }
    registration_.gather()->OnSaid("a", FromWorker{Incarnation(5), recalled, {}}, &actions_);
  }

  JobConfig config_;
  members::AgentTable agents_{3000, 30000};
  members::GenerationCount generations_{0};
  StaleWorkers stale_{"j", {{2, 7}, "rank 1 died"}, &agents_};
  Registration registration_{&config_, &stale_, &generations_};
  Actions actions_;
};

TEST_F(RegistrationTest, OneBeginsForAGenerationOfAnEarlierController) {
  EXPECT_FALSE(Says(5, {})) << "wants to join";
  EXPECT_FALSE(Says(5, {3, 9})) << "of this controller, which does not know it";
  EXPECT_FALSE(Says(5, {2, 7})) << "known to have failed";
  EXPECT_FALSE(Says(5, {members::GenerationCount::kToldMax + 1, 7})) << "no number of a generation";
  EXPECT_EQ(registration_.gather(), nullptr);
  EXPECT_TRUE(Says(5, {3, 7}));
  ASSERT_NE(registration_.gather(), nullptr);
  EXPECT_EQ(generations_.last(), 3u) << "the next one has another number";
}

TEST_F(RegistrationTest, ANewerGenerationTakesThePlaceOfAnOlder) {
  EXPECT_TRUE(Says(5, {3, 7}));
  EXPECT_FALSE(Says(6, {2, 6})) << "an older one";
  actions_ = Actions();
  EXPECT_TRUE(Says(6, {1, 8}));
  EXPECT_EQ(registration_.gather()->generation(), (GenerationId{1, 8}));
  ASSERT_FALSE(actions_.sends.empty());
  EXPECT_EQ(std::get<Removed>(std::get<WorkerDown>(actions_.sends[0].message)).generation, (GenerationId{3, 7}));
}

TEST_F(RegistrationTest, WhoEndedBeforeAndWhoWaitsToJoinCountAsMembers) {
  members::Membership waiting(2);
  waiting.Join(HelloOf(6, {}), "a", "h", kNow);
  EXPECT_TRUE(Says(5, {3, 7}));
  registration_.TakeCandidates(&waiting, &actions_);
  EXPECT_EQ(waiting.candidates().size(), 1u) << "the view is not known yet";
  TellsView({3, 7});
  EXPECT_TRUE(registration_.Concerns(HelloOf(6, {}), kNow, &actions_)) << "the view was on its way to it";
  registration_.TakeCandidates(&waiting, &actions_);
  EXPECT_TRUE(waiting.candidates().empty());
  ASSERT_TRUE(registration_.gather()->complete());
  EXPECT_TRUE(registration_.gather()->keys().Put("k", "v").ok());
  members::KeyStore keys;
  const recovery::Recovery recovery = registration_.Finish(&keys);
  EXPECT_EQ(recovery.found().view.members.size(), 2u);
  EXPECT_TRUE(keys.Find("k").ok());
  EXPECT_EQ(registration_.gather(), nullptr);
}

TEST_F(RegistrationTest, WhatWasSaidOfWorkersBeforeIsBounded) {
  for (uint64_t worker : {7, 8, 6}) registration_.OnEnded({Incarnation(worker), 1, "ended"}, true, &actions_);
  EXPECT_TRUE(Says(5, {3, 7}));
  TellsView({3, 7});
  EXPECT_FALSE(registration_.gather()->complete()) << "that worker 6 ended was one too many";
  registration_.OnEnded({Incarnation(6), 1, "ended"}, true, &actions_);
  EXPECT_TRUE(registration_.gather()->complete());
}

TEST_F(RegistrationTest, WithoutAViewAllAreTurnedAway) {
  EXPECT_TRUE(Says(5, {3, 7}));
  registration_.gather()->Tick(kNow.PlusMs(config_.give_up_after_ms), &actions_);
  ASSERT_TRUE(registration_.gather()->hopeless());
  actions_ = Actions();
  registration_.GiveUp(&actions_);
  EXPECT_EQ(registration_.gather(), nullptr);
  ASSERT_EQ(actions_.sends.size(), 1u);
  EXPECT_EQ(std::get<Removed>(std::get<WorkerDown>(actions_.sends[0].message)).kind, RemovedKind::kGone);
}

}  // namespace
}  // namespace farandole::controller::job
