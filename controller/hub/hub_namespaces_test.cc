#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/hub/fakes_testing.h"
#include "controller/hub/hub.h"
#include "controller/hub/noted_log_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::controller::hub {
namespace {

class HubNamespacesTest : public ::testing::Test {
 protected:
  HubNamespacesTest() {
    HubConfig& config = config_;
    config.limits_of = [this](absl::string_view name) {
      return name == "other" ? other_ : name == "team" ? team_ : NamespaceLimits();
    };
    config.audit = [this](const audit::AuditEvent& event) {
      told_.push_back(absl::StrCat(event.event, " ", event.job, " ", event.agent, " ", event.why));
    };
    hub_ = std::make_unique<Hub>(config, &clock_, &log_, [](TimePoint) {});
    // Past the time in which others come back.
    clock_.now = clock_.now.PlusMs(config.comeback_ms);
  }
  std::shared_ptr<FakeStream> Join(const std::string& job, const std::string& agent = "a", uint64_t welcomed_by = 0) {
    auto stream = std::make_shared<FakeStream>();
    hub_->Opened(stream, job, {agent, "h", "", welcomed_by});
    return stream;
  }
  // As it is just after its start.
  void Restart() {
    hub_ = std::make_unique<Hub>(config_, &clock_, &log_, [](TimePoint) {});
  }

  HubConfig config_;
  FakeClock clock_;
  NotedLog log_;
  NamespaceLimits team_{2, 3}, other_;
  std::vector<std::string> told_;
  std::unique_ptr<Hub> hub_;
};

TEST_F(HubNamespacesTest, JobsAreBoundedAndTheirPartsAreNone) {
  const auto first = Join("team.a");
  Join("team.a/part");
  EXPECT_TRUE(Join("team.b")->closed.ok());
  team_.agents_max = 100;
  const absl::Status refused = Join("team.c")->closed;
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.message(), "namespace team has 2 of the 2 jobs that this controller's limits allow it");
  EXPECT_TRUE(Join("team.b/part")->closed.ok()) << "of a job that there is";
  EXPECT_TRUE(Join("other.c")->closed.ok());
  EXPECT_TRUE(Join("team")->closed.ok()) << "of the namespace default";
  hub_->Closed(first.get(), "team.a", "a");
  EXPECT_EQ(Join("team.c")->closed.code(), absl::StatusCode::kResourceExhausted) << "team.a/part is there still";
}

TEST_F(HubNamespacesTest, WhatTheyHaveIsToldOfThoseThatHaveJobs) {
  EXPECT_TRUE(hub_->Namespaces().empty());
  Join("team.a", "a");
  Join("team.a", "b");
  Join("team.a/part", "a");
  Join("loose");
  Join("other.a");
  const auto told = hub_->Namespaces();
  std::vector<std::string> lines;
  for (const NamespaceUse& use : told) lines.push_back(absl::StrCat(use.name, " ", use.jobs, " ", use.agents));
  EXPECT_THAT(lines, ::testing::ElementsAre("default 1 1", "other 1 1", "team 1 3"));
  EXPECT_EQ(told[0].limits, NamespaceLimits());
  EXPECT_EQ(told[2].limits, team_);
}

TEST_F(HubNamespacesTest, TheLogNamesEachThatIsFullOnceAMinute) {
  team_.jobs_max = other_.jobs_max = 1;
  for (const char* job : {"team.a", "other.a"}) Join(job);
  log_.Take();
  for (const char* job : {"team.b", "other.b", "team.c"}) Join(job);
  const std::string team = "namespace team has 1 of the 1 jobs that this controller's limits allow it";
  const std::string other = "namespace other has 1 of the 1 jobs that this controller's limits allow it";
  EXPECT_THAT(log_.Take(), ::testing::ElementsAre(team, other));
  clock_.now = clock_.now.PlusMs(59999);
  Join("team.b");
  EXPECT_THAT(log_.Take(), ::testing::ElementsAre());
  clock_.now = clock_.now.PlusMs(1);
  Join("team.b");
  EXPECT_THAT(log_.Take(), ::testing::ElementsAre(team));
}

TEST_F(HubNamespacesTest, AgentsAreBoundedAndOneThatComesAgainIsNoOther) {
  Join("team.a", "a");
  Join("team.a", "b");
  const auto last = Join("team.b", "c");
  const absl::Status refused = Join("team.b", "d")->closed;
  EXPECT_EQ(refused.message(), "namespace team has 3 of the 3 agents that this controller's limits allow it");
  EXPECT_TRUE(Join("other.b", "d")->closed.ok());
  EXPECT_TRUE(Join("team.a", "b")->closed.ok());
  hub_->Closed(last.get(), "team.b", "c");
  EXPECT_TRUE(Join("team.b", "d")->closed.ok());
  // What is there stays when the limit is lowered.
  team_.agents_max = 1;
  EXPECT_TRUE(Join("team.a", "a")->closed.ok());
  EXPECT_EQ(Join("team.a", "x")->closed.code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(HubNamespacesTest, AnAgentOutOfReachKeepsItsPlaceUntilItIsGivenUp) {
  team_.agents_max = 1;
  const auto stream = Join("team.a");
  Hello hello;
  hello.session = 1;
  hello.worker_incarnation = Incarnation(7);
  hello.version = "0.1.0";
  hello.rank = Rank(-1);
  hello.size = 1;
  hub_->Said(stream.get(), "team.a", "a", FromWorker{Incarnation(7), hello});
  hub_->Closed(stream.get(), "team.a", "a");
  EXPECT_EQ(Join("team.b", "b")->closed.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(Join("team.a")->closed.ok());
}

TEST_F(HubNamespacesTest, PartsWhoseAgentsHaveGoneTakePlaces) {
  team_ = {1, 3};
  for (int i = 0; i < 3; ++i) {
    const std::string part = absl::StrCat("team.a/", i);
    const auto stream = Join(part);
    EXPECT_TRUE(stream->closed.ok());
    Hello hello;
    hello.session = 1;
    hello.worker_incarnation = Incarnation(i + 1);
    hello.version = "0.1.0";
    hello.rank = Rank(-1);
    hello.size = 2;
    hub_->Said(stream.get(), part, "a", FromWorker{Incarnation(i + 1), hello});
    hub_->Closed(stream.get(), part, "a");
  }
  EXPECT_EQ(Join("team.a/3")->closed.code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(HubNamespacesTest, WhoComesBackAfterARestartGoesBeforeNewcomers) {
  Restart();
  team_ = {1, 1};
  EXPECT_EQ(Join("team.new")->closed.message(), "this controller has just begun: who had a place before comes first");
  EXPECT_TRUE(Join("other.new")->closed.ok()) << "without limits nobody waits";
  EXPECT_TRUE(Join("team.old", "a", 5)->closed.ok());
  clock_.now = clock_.now.PlusMs(config_.newcomers_wait_ms);
  EXPECT_EQ(Join("team.new")->closed.code(), absl::StatusCode::kResourceExhausted) << "its place is taken";
}

TEST_F(HubNamespacesTest, AJobThatBeginsAnewHoldsUpNoOtherNamespace) {
  for (uint64_t known = 5; known < 50; known += 5) {
    Join("bad.j", "a", known);
    EXPECT_TRUE(Join(absl::StrCat("team.", known / 5 % 2))->closed.ok()) << known;
    clock_.now = clock_.now.PlusMs(config_.newcomers_wait_ms - 1);
  }
}

TEST_F(HubNamespacesTest, AJobThatBeginsAnewKeepsPlacesInItsOwn) {
  team_ = {2, 1};
  EXPECT_TRUE(Join("team.old", "a")->closed.ok());
  clock_.now = clock_.now.PlusMs(config_.comeback_ms);
  // Its agents know a controller of a greater number: they connect again, and so does another one that they know.
  EXPECT_TRUE(Join("team.old", "a", 5)->closed.ok());
  EXPECT_TRUE(Join("team.old", "b", 5)->closed.ok()) << "as many again";
  team_.agents_max = 100;
  EXPECT_EQ(Join("team.new")->closed.message(), "this controller has just begun: who had a place before comes first");
  clock_.now = clock_.now.PlusMs(config_.newcomers_wait_ms);
  EXPECT_TRUE(Join("team.new")->closed.ok());
}

TEST_F(HubNamespacesTest, WhoComesBackLateStillHasAPlaceButNotAnyNumber) {
  Restart();
  team_ = {1, 1};
  clock_.now = clock_.now.PlusMs(config_.newcomers_wait_ms);
  EXPECT_TRUE(Join("team.new")->closed.ok());
  EXPECT_TRUE(Join("team.old", "a", 5)->closed.ok());
  EXPECT_EQ(Join("team.older", "a", 5)->closed.code(), absl::StatusCode::kResourceExhausted);
  clock_.now = clock_.now.PlusMs(config_.comeback_ms);
  team_ = {3, 2};
  EXPECT_EQ(Join("team.older", "a", 5)->closed.code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(HubNamespacesTest, StreamsThatSayNothingAreBounded) {
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(hub_->StreamBegins(absl::StrCat("team.", i)).ok()) << i;
  EXPECT_EQ(hub_->StreamBegins("team.0").message(),
            "namespace team has 6 of the 6 streams that this controller's limits allow it");
  EXPECT_TRUE(hub_->StreamBegins("other.0").ok());
  hub_->StreamEnded("team.3");
  EXPECT_TRUE(hub_->StreamBegins("team.9").ok());
}

TEST_F(HubNamespacesTest, WhoComesAndGoesIsTold) {
  const auto stream = Join("team.a");
  hub_->Closed(stream.get(), "team.a", "a");
  team_.jobs_max = 1;
  Join("team.b");
  Join("team.c");
  EXPECT_THAT(told_,
              ::testing::ElementsAre("job_began team.a  ", "agent_connected team.a a ", "agent_disconnected team.a a ",
                                     "job_ended team.a  ", "job_began team.b  ", "agent_connected team.b a ",
                                     "agent_refused team.c a namespace team has 1 of the 1 jobs that "
                                     "this controller's limits allow it"));
}

}  // namespace
}  // namespace farandole::controller::hub
