#include "controller/hub/hub.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/hub/fakes_testing.h"
#include "controller/members/key_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/codec/codec.h"

namespace farandole::controller::hub {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class HubTest : public ::testing::Test {
 protected:
  static AgentUp HelloOf(uint64_t worker, int size) {
    Hello hello;
    hello.session = 1;
    hello.worker_incarnation = Incarnation(worker);
    hello.version = "0.1.0";
    hello.rank = Rank(-1);
    hello.size = size;
    return FromWorker{Incarnation(worker), hello};
  }

  FakeClock clock_;
  Log log_{LogLevel::kError};
  std::vector<TimePoint> armed_;
};

TEST_F(HubTest, StreamsAreBoundedAndReturnedWhenTheyEnd) {
  HubConfig config;
  config.streams_max = 1;
  auto hub = std::make_unique<Hub>(config, &clock_, &log_, [](TimePoint) {});
  EXPECT_TRUE(hub->StreamBegins("j").ok());
  EXPECT_EQ(hub->StreamBegins("k").code(), absl::StatusCode::kResourceExhausted);
  hub->StreamEnded("j");
  EXPECT_TRUE(hub->StreamBegins("k").ok());
}

TEST_F(HubTest, AJobAndItsPartsLeaveRoomForOthersStreams) {
  HubConfig config;
  config.streams_per_job_max = 2;
  auto hub = std::make_unique<Hub>(config, &clock_, &log_, [](TimePoint) {});
  EXPECT_TRUE(hub->StreamBegins("j").ok());
  EXPECT_TRUE(hub->StreamBegins("j/p").ok());
  const absl::Status refused = hub->StreamBegins("j/q");
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("job j and its parts have 2 agents"));
  EXPECT_TRUE(hub->StreamBegins("k").ok());
  hub->StreamEnded("j/p");
  EXPECT_TRUE(hub->StreamBegins("j/q").ok());
}

TEST_F(HubTest, PartsOfAJobLeaveRoomForOtherJobs) {
  HubConfig config;
  config.parts_max = 2;
  auto hub = std::make_unique<Hub>(config, &clock_, &log_, [](TimePoint) {});
  const auto join = [&](const std::string& job) {
    auto stream = std::make_shared<FakeStream>();
    hub->Opened(stream, job, {"a", "h", "", 0});
    return stream;
  };
  const auto whole = join("j");
  const auto first = join("j/p");
  join("j/q");
  EXPECT_EQ(join("j/r")->closed.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(join("k")->closed.ok());
  hub->Closed(first.get(), "j/p", "a");
  EXPECT_TRUE(join("j/r")->closed.ok());
}

// Of what an earlier timer is worth: nothing. Here none is ever taken back.
TEST_F(HubTest, TimersOfTwoJobsDoNotMultiply) {
  std::multiset<TimePoint> timers;
  int armed = 0;
  auto hub = std::make_unique<Hub>(HubConfig{}, &clock_, &log_, [&](TimePoint when) {
    timers.insert(when);
    ++armed;
  });
  const auto until = [&](TimePoint when) {
    while (!timers.empty() && *timers.begin() <= when) {
      clock_.now = *timers.begin();
      timers.erase(timers.begin());
      hub->Tick();
    }
    clock_.now = when;
  };
  auto stream = std::make_shared<FakeStream>();
  auto other = std::make_shared<FakeStream>();
  hub->Opened(stream, "j", {"a", "h", "", 0});
  until(clock_.now.PlusMs(500));
  hub->Opened(other, "k", {"b", "h", "", 0});
  constexpr int kSeconds = 3 * 3600;
  for (int second = 0; second < kSeconds; ++second) {
    hub->Said(stream.get(), "j", "a", Lease{});
    hub->Said(other.get(), "k", "b", Lease{});
    // Now and then something has to happen earlier than what was waited for: agents that are away are given up late,
    // and are expected to speak soon when they are back.
    if (second % 60 == 0) {
      hub->Closed(stream.get(), "j", "a");
      hub->Closed(other.get(), "k", "b");
      until(clock_.now.PlusMs(10000));
      hub->Opened(stream, "j", {"a", "h", "", 0});
      hub->Opened(other, "k", {"b", "h", "", 0});
      // Somebody waits to join, so that the jobs are not forgotten meanwhile.
      hub->Said(stream.get(), "j", "a", HelloOf(1, 2));
      hub->Said(other.get(), "k", "b", HelloOf(1, 2));
    }
    until(clock_.now.PlusMs(1000));
  }
  EXPECT_LT(timers.size(), 10u);
  EXPECT_LT(armed, 2 * kSeconds);
  // They are not lost either.
  EXPECT_TRUE(hub->Status("j").ok());
  hub->Said(stream.get(), "j", "a", HelloOf(1, 2));
  until(clock_.now.PlusMs(31000));
  EXPECT_THAT(hub->Status("j")->members, SizeIs(0));
}

TEST_F(HubTest, AWakeUpThatIsNoLongerWantedChangesNothing) {
  auto hub = std::make_unique<Hub>(HubConfig{}, &clock_, &log_, [this](TimePoint when) { armed_.push_back(when); });
  hub->Opened(std::make_shared<FakeStream>(), "j", {"a", "h", "", 0});
  ASSERT_THAT(armed_, SizeIs(1));
  hub->Tick();
  EXPECT_THAT(armed_, SizeIs(1));
  clock_.now = armed_.back();
  hub->Tick();
  EXPECT_THAT(armed_, SizeIs(2));
}

// The clock was set back between two lives of a controller.
TEST_F(HubTest, AJobWhoseAgentsKnowAGreaterControllerBeginsAnewAboveIt) {
  HubConfig config;
  config.job.controller_incarnation = 5;
  auto hub = std::make_unique<Hub>(config, &clock_, &log_, [](TimePoint) {});
  const auto welcomed = [](const FakeStream& stream) {
    return std::get<AgentWelcome>(*DecodeAgentDown(stream.sent.at(0))).controller_incarnation;
  };
  auto fresh = std::make_shared<FakeStream>();
  auto older = std::make_shared<FakeStream>();
  auto neighbour = std::make_shared<FakeStream>();
  hub->Opened(neighbour, "k", {"c", "h", "", 0});
  hub->Opened(fresh, "j", {"a", "h", "", 0});
  EXPECT_EQ(welcomed(*fresh), 5u);
  EXPECT_TRUE(hub->Opened(older, "j", {"b", "i", "", 9}));
  EXPECT_EQ(welcomed(*older), 10u);
  EXPECT_EQ(fresh->closed.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(neighbour->closed.ok());
  EXPECT_EQ(hub->Status("j")->controller_incarnation, 10u);
  EXPECT_EQ(hub->Status("k")->controller_incarnation, 5u);
  // Its own number is no reason.
  auto again = std::make_shared<FakeStream>();
  EXPECT_TRUE(hub->Opened(again, "j", {"a", "h", "", 10}));
  EXPECT_EQ(welcomed(*again), 10u);
  EXPECT_TRUE(older->closed.ok());
}

TEST_F(HubTest, AWorkerMayBeTheOnlyOneWhoKnowsAGreaterController) {
  HubConfig config;
  config.job.controller_incarnation = 5;
  auto hub = std::make_unique<Hub>(config, &clock_, &log_, [](TimePoint) {});
  auto stream = std::make_shared<FakeStream>();
  hub->Opened(stream, "j", {"a", "h", "", 0});
  AgentUp said = HelloOf(1, 1);
  Hello& hello = std::get<Hello>(std::get<FromWorker>(said).message);
  hello.generation = {3, 9};
  hub->Said(stream.get(), "j", "a", said);
  EXPECT_EQ(stream->closed.code(), absl::StatusCode::kUnavailable);
  auto again = std::make_shared<FakeStream>();
  hub->Opened(again, "j", {"a", "h", "", 5});
  hub->Said(again.get(), "j", "a", said);
  // It goes on with its generation.
  EXPECT_EQ(hub->Status("j")->state, JobState::kRecovering);
  EXPECT_EQ(hub->Status("j")->controller_incarnation, 10u);
}

TEST_F(HubTest, ThereIsNoControllerOfAnyNumber) {
  HubConfig config;
  config.job.controller_incarnation = 5;
  auto hub = std::make_unique<Hub>(config, &clock_, &log_, [](TimePoint) {});
  auto stream = std::make_shared<FakeStream>();
  EXPECT_FALSE(hub->Opened(stream, "j", {"a", "h", "", ~uint64_t{0}}));
  EXPECT_EQ(stream->closed.code(), absl::StatusCode::kInvalidArgument);
  auto other = std::make_shared<FakeStream>();
  hub->Opened(other, "j", {"a", "h", "", 0});
  AgentUp said = HelloOf(1, 1);
  std::get<Hello>(std::get<FromWorker>(said).message).last_controller_incarnation = ~uint64_t{0};
  hub->Said(other.get(), "j", "a", said);
  EXPECT_TRUE(other->closed.ok());
  EXPECT_EQ(hub->Status("j")->controller_incarnation, 5u);
}

TEST_F(HubTest, ABeginningAnewUnderTheGreatestNumberLocksNobodyOut) {
  HubConfig config;
  config.job.controller_incarnation = 5;
  auto hub = std::make_unique<Hub>(config, &clock_, &log_, [](TimePoint) {});
  const auto join = [&](uint64_t known) {
    auto stream = std::make_shared<FakeStream>();
    hub->Opened(stream, "j", {"a", "h", "", known});
    return stream;
  };
  const uint64_t most = 5 + Hub::kIncarnationStepMax;
  EXPECT_EQ(join(most + 1)->closed.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(hub->Status("j").status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(join(most)->closed.ok());
  ASSERT_EQ(hub->Status("j")->controller_incarnation, most + 1);
  const auto again = join(most + 1);
  EXPECT_TRUE(again->closed.ok());
  EXPECT_EQ(hub->Status("j")->controller_incarnation, most + 1);
  EXPECT_EQ(join(most + 2)->closed.code(), absl::StatusCode::kInvalidArgument);
  // Also when the job was forgotten.
  hub->Closed(again.get(), "j", "a");
  ASSERT_EQ(hub->Status("j").status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(join(most + 1)->closed.ok());
  EXPECT_EQ(hub->Status("j")->controller_incarnation, most + 1);
}

TEST_F(HubTest, AJobThatBeganAnewIsForgottenIfNobodyComesBack) {
  HubConfig config;
  config.job.controller_incarnation = 5;
  auto hub = std::make_unique<Hub>(config, &clock_, &log_, [](TimePoint) {});
  auto stream = std::make_shared<FakeStream>();
  hub->Opened(stream, "j", {"a", "h", "", 0});
  AgentUp said = HelloOf(1, 1);
  std::get<Hello>(std::get<FromWorker>(said).message).generation = {3, 9};
  hub->Said(stream.get(), "j", "a", said);
  EXPECT_EQ(stream->closed.code(), absl::StatusCode::kUnavailable);
  hub->Closed(stream.get(), "j", "a");
  EXPECT_EQ(hub->Status("j").status().code(), absl::StatusCode::kNotFound);
  // Whoever comes back later is not told to come back once more.
  auto again = std::make_shared<FakeStream>();
  hub->Opened(again, "j", {"a", "h", "", 5});
  hub->Said(again.get(), "j", "a", said);
  EXPECT_TRUE(again->closed.ok());
  EXPECT_EQ(hub->Status("j")->controller_incarnation, 10u);
  EXPECT_EQ(hub->Status("j")->state, JobState::kRecovering);
}

TEST_F(HubTest, AGenerationThatHasFailedIsNotGatheredWhenTheJobBeginsAnew) {
  HubConfig config;
  config.job.controller_incarnation = 5;
  auto hub = std::make_unique<Hub>(config, &clock_, &log_, [](TimePoint) {});
  auto stream = std::make_shared<FakeStream>();
  hub->Opened(stream, "j", {"a", "h", "", 0});
  for (uint64_t worker : {1, 2}) {
    AgentUp joins = HelloOf(worker, 2);
    std::get<Hello>(std::get<FromWorker>(joins).message).pid = static_cast<int64_t>(worker);
    hub->Said(stream.get(), "j", "a", joins);
  }
  ASSERT_EQ(hub->Status("j")->state, JobState::kRunning);
  const GenerationId generation = hub->Status("j")->generation;
  hub->Said(stream.get(), "j", "a", WorkerEnded{Incarnation(1), 0, "exited with code 1"});
  ASSERT_EQ(hub->Status("j")->state, JobState::kFailed);
  auto again = std::make_shared<FakeStream>();
  hub->Opened(again, "j", {"a", "h", "", 9});
  AgentUp said = HelloOf(2, 2);
  std::get<Hello>(std::get<FromWorker>(said).message).generation = generation;
  hub->Said(again.get(), "j", "a", said);
  EXPECT_EQ(hub->Status("j")->state, JobState::kGathering);
  EXPECT_THAT(again->sent.back(), HasSubstr("exited with code 1"));
}

// Neither by the first nor, while it registers, by the second beginning anew.
TEST_F(HubTest, AGenerationThatLivesIsGatheredHoweverOftenTheJobBeginsAnew) {
  HubConfig config;
  config.job.controller_incarnation = 5;
  auto hub = std::make_unique<Hub>(config, &clock_, &log_, [](TimePoint) {});
  auto stream = std::make_shared<FakeStream>();
  hub->Opened(stream, "j", {"a", "h", "", 0});
  for (uint64_t worker : {1, 2}) {
    AgentUp joins = HelloOf(worker, 2);
    std::get<Hello>(std::get<FromWorker>(joins).message).pid = static_cast<int64_t>(worker);
    hub->Said(stream.get(), "j", "a", joins);
  }
  ASSERT_EQ(hub->Status("j")->state, JobState::kRunning);
  const GenerationId generation = hub->Status("j")->generation;
  for (uint64_t known : {9, 20}) {
    auto again = std::make_shared<FakeStream>();
    hub->Opened(again, "j", {"a", "h", "", known});
    AgentUp said = HelloOf(2, 2);
    std::get<Hello>(std::get<FromWorker>(said).message).generation = generation;
    hub->Said(again.get(), "j", "a", said);
    EXPECT_EQ(hub->Status("j")->state, JobState::kRecovering) << known;
  }
}

TEST_F(HubTest, WhatAnOlderStreamSaysOrItsEndChangeNothing) {
  auto hub = std::make_unique<Hub>(HubConfig{}, &clock_, &log_, [](TimePoint) {});
  auto older = std::make_shared<FakeStream>();
  auto newer = std::make_shared<FakeStream>();
  hub->Opened(older, "j", {"a", "h", ""});
  hub->Opened(newer, "j", {"a", "h", ""});
  EXPECT_EQ(older->closed.code(), absl::StatusCode::kAborted);
  hub->Said(older.get(), "j", "a", HelloOf(1, 1));
  hub->Closed(older.get(), "j", "a");
  EXPECT_THAT(newer->sent, SizeIs(1));
  hub->Said(newer.get(), "j", "a", HelloOf(1, 1));
  EXPECT_THAT(newer->sent, SizeIs(3));
}

TEST_F(HubTest, HostsOfALargeJobAreToldOfTheirOwnMembers) {
  constexpr int kHosts = 70;
  auto hub = std::make_unique<Hub>(HubConfig{}, &clock_, &log_, [](TimePoint) {});
  std::vector<std::shared_ptr<FakeStream>> streams;
  for (int i = 0; i < kHosts; ++i) {
    const std::string agent = "a" + std::to_string(i);
    streams.push_back(std::make_shared<FakeStream>());
    hub->Opened(streams[i], "j", {agent, "h", ""});
    hub->Said(streams[i].get(), "j", agent, HelloOf(i + 1, kHosts));
  }
  for (const int i : {0, kHosts - 1}) {
    ASSERT_THAT(streams[i]->sent, SizeIs(3));
    const auto down = DecodeAgentDown(streams[i]->sent.back());
    ASSERT_TRUE(down.ok()) << down.status();
    const View& view = std::get<View>(std::get<ToWorkers>(*down).message);
    ASSERT_THAT(view.members, SizeIs(kHosts));
    for (int r = 0; r < kHosts; ++r) EXPECT_EQ(view.members[r].known(), i == 0 || r == i) << i << " of " << r;
  }
}

TEST_F(HubTest, WaitingGetsEndOnceWithTheGenerationOrTheServer) {
  HubConfig config;
  config.waiting_gets_max = 2;
  auto hub = std::make_unique<Hub>(config, &clock_, &log_, [](TimePoint) {});
  auto stream = std::make_shared<FakeStream>();
  hub->Opened(stream, "j", {"a", "h", ""});
  hub->Said(stream.get(), "j", "a", HelloOf(1, 1));
  const GenerationId generation = hub->Status("j")->generation;
  std::vector<absl::StatusCode> ends;
  const auto done = [&](absl::StatusOr<std::string> value) { ends.push_back(value.status().code()); };
  hub->Get("j", generation, "k", 1, done);
  hub->Get("j", generation, "l", 2, done);
  hub->Get("j", generation, "m", 3, done);
  EXPECT_THAT(ends, ::testing::ElementsAre(absl::StatusCode::kResourceExhausted));
  EXPECT_TRUE(hub->Put("j", generation, "k", "v").ok());
  EXPECT_THAT(ends, ::testing::ElementsAre(absl::StatusCode::kResourceExhausted, absl::StatusCode::kOk));
  hub->CancelGet("j", 2);
  hub->Get("j", generation, "n", 4, done);
  hub->Shutdown();
  EXPECT_THAT(ends, SizeIs(3));
  EXPECT_EQ(ends.back(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(stream->closed.code(), absl::StatusCode::kUnavailable);
}

// A job of one worker, job "j/1" its part, and another job whose name begins alike.
class HubPartsTest : public HubTest {
 protected:
  void Start(const HubConfig& config) {
    hub_ = std::make_unique<Hub>(config, &clock_, &log_, [](TimePoint) {});
    for (const char* job : {"j", "j/1", "j-1"}) {
      hub_->Opened(stream_, job, {"a", "h", ""});
      hub_->Said(stream_.get(), job, "a", HelloOf(1, 1));
      generation_ = hub_->Status(job)->generation;
    }
  }
  absl::StatusCode Get(const std::string& job) {
    absl::StatusCode code = absl::StatusCode::kOk;
    hub_->Get(job, generation_, "k", ++ids_, [&code](absl::StatusOr<std::string> value) {
      if (absl::IsResourceExhausted(value.status())) code = value.status().code();
    });
    return code;
  }

  std::unique_ptr<Hub> hub_;
  const std::shared_ptr<FakeStream> stream_ = std::make_shared<FakeStream>();
  GenerationId generation_;
  uint64_t ids_ = 0;
};

TEST_F(HubPartsTest, WaitingGetsAreBoundedForTheWholeJob) {
  HubConfig config;
  config.waiting_gets_max = 2;
  Start(config);
  EXPECT_EQ(Get("j"), absl::StatusCode::kOk);
  EXPECT_EQ(Get("j/1"), absl::StatusCode::kOk);
  EXPECT_EQ(Get("j"), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Get("j/1"), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Get("j-1"), absl::StatusCode::kOk) << "another job";
  hub_->CancelGet("j", 1);
  EXPECT_EQ(Get("j/1"), absl::StatusCode::kOk);
  hub_->Shutdown();
}

TEST_F(HubPartsTest, KeysAreBoundedForTheWholeJob) {
  Start(HubConfig());
  const std::string value(members::KeyStore::kValueBytesMax, 'v');
  const auto fill = [&](const std::string& job) {
    int puts = 0;
    while (puts < 1000 && hub_->Put(job, generation_, absl::StrCat(puts), value).ok()) ++puts;
    return puts;
  };
  const int all = fill("j");
  EXPECT_GT(all, 200);
  EXPECT_LT(all, 300);
  EXPECT_LT(fill("j/1"), 3) << "what its own member brings";
  EXPECT_EQ(fill("j-1"), all) << "another job";
  EXPECT_TRUE(hub_->Put("j", generation_, "0", value).ok()) << "the same again";
  Start(HubConfig());
  EXPECT_EQ(fill("j/1"), all);
  EXPECT_LT(fill("j"), 3);
}

TEST_F(HubTest, AsksForTheEarliestWakeUpAndForgetsAbandonedJobs) {
  HubConfig config;
  config.job.suspect_after_ms = 10;
  config.job.give_up_after_ms = 20;
  auto hub = std::make_unique<Hub>(config, &clock_, &log_, [this](TimePoint when) { armed_.push_back(when); });
  auto stream = std::make_shared<FakeStream>();
  hub->Opened(stream, "j", {"a", "h", ""});
  EXPECT_THAT(armed_, ::testing::ElementsAre(TimePoint(1000).PlusMs(10)));
  hub->Said(stream.get(), "j", "a", HelloOf(1, 2));
  hub->Closed(stream.get(), "j", "a");
  EXPECT_TRUE(hub->Status("j").ok());
  clock_.now = clock_.now.PlusMs(10);
  hub->Tick();
  EXPECT_EQ(armed_.back(), TimePoint(1000).PlusMs(20));
  clock_.now = clock_.now.PlusMs(10);
  hub->Tick();
  EXPECT_EQ(hub->Status("j").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(HubTest, AHostThatComesBackLateLearnsWhyItsWorkersWereGivenUp) {
  HubConfig config;
  config.job.controller_incarnation = 7;
  auto hub = std::make_unique<Hub>(config, &clock_, &log_, [](TimePoint) {});
  const auto connect = [&](const std::string& agent, const std::string& host) {
    auto stream = std::make_shared<FakeStream>();
    hub->Opened(stream, "j", {agent, host, ""});
    return stream;
  };
  auto near = connect("a", "h");
  auto far = connect("b", "i");
  hub->Said(near.get(), "j", "a", HelloOf(1, 2));
  hub->Said(far.get(), "j", "b", HelloOf(2, 2));
  hub->Closed(far.get(), "j", "b");
  for (int second = 0; second < 30; ++second) {
    clock_.now = clock_.now.PlusMs(1000);
    hub->Said(near.get(), "j", "a", Lease{});
    hub->Tick();
  }
  EXPECT_THAT(hub->Status("j")->reason, ::testing::HasSubstr("the agent on host i was lost 30 s ago"));
  // The others end, and with them all that the controller has of the job.
  hub->Said(near.get(), "j", "a", WorkerEnded{Incarnation(1), 0, "exited with code 1"});
  hub->Closed(near.get(), "j", "a");
  ASSERT_EQ(hub->Status("j").status().code(), absl::StatusCode::kNotFound);

  far = connect("b", "i");
  AgentUp again = HelloOf(2, 2);
  std::get<Hello>(std::get<FromWorker>(again).message).generation = {1, 7};
  hub->Said(far.get(), "j", "b", again);
  ASSERT_FALSE(far->sent.empty());
  EXPECT_THAT(far->sent.back(), ::testing::HasSubstr("given up: the connection of the agent on host i was lost 30 s"));
  // A generation of which nothing is known.
  std::get<Hello>(std::get<FromWorker>(again).message).generation = {9, 7};
  hub->Said(far.get(), "j", "b", again);
  EXPECT_THAT(far->sent.back(), ::testing::HasSubstr("the controller does not know generation 9"));
}

TEST_F(HubTest, AfterAStandstillOthersAreHeardFirst) {
  HubConfig config;
  config.job.suspect_after_ms = 3000;
  config.job.give_up_after_ms = 10000;
  auto hub = std::make_unique<Hub>(config, &clock_, &log_, [this](TimePoint when) { armed_.push_back(when); });
  auto heard = std::make_shared<FakeStream>();
  auto lost = std::make_shared<FakeStream>();
  hub->Opened(heard, "j", {"a", "h", ""});
  hub->Opened(lost, "j", {"b", "i", ""});
  hub->Said(heard.get(), "j", "a", HelloOf(1, 2));
  hub->Said(lost.get(), "j", "b", HelloOf(2, 2));
  ASSERT_EQ(hub->Status("j")->members.size(), 2u);
  clock_.now = armed_.back().PlusMs(60000);
  hub->Tick();
  EXPECT_EQ(armed_.back(), clock_.now.PlusMs(1000));
  const size_t asked = armed_.size();
  hub->Said(heard.get(), "j", "a", Lease{});
  EXPECT_THAT(armed_, SizeIs(asked));
  // From here on it counts as ever, even when each wake-up comes late.
  const auto wake = [&](int64_t late_ms) {
    clock_.now = armed_.back().PlusMs(late_ms);
    hub->Said(heard.get(), "j", "a", Lease{});
    hub->Tick();
  };
  wake(5000);
  EXPECT_TRUE(hub->Status("j")->members[0].responsive);
  EXPECT_EQ(hub->Status("j")->members[1].cause, "the agent on host i has been silent for 9 s");
  wake(0);
  EXPECT_THAT(hub->Status("j")->members[1].cause, ::testing::HasSubstr("given up"));
}

TEST_F(HubTest, TellsOnceWhenNoJobIsLeft) {
  auto hub = std::make_unique<Hub>(HubConfig{}, &clock_, &log_, [](TimePoint) {});
  int told = 0;
  hub->WhenEmpty([&] { ++told; });
  EXPECT_EQ(told, 1);
  auto whole = std::make_shared<FakeStream>();
  auto part = std::make_shared<FakeStream>();
  hub->Opened(whole, "j", {"a", "h", ""});
  hub->Opened(part, "j/p", {"b", "h", ""});
  hub->WhenEmpty([&] { ++told; });
  hub->Closed(whole.get(), "j", "a");
  EXPECT_EQ(told, 1);
  hub->Closed(part.get(), "j/p", "b");
  EXPECT_EQ(told, 2);
  hub->Opened(part, "j/p", {"b", "h", ""});
  hub->Closed(part.get(), "j/p", "b");
  EXPECT_EQ(told, 2);
}

TEST_F(HubTest, AJobThatComesBackDoesNotReuseGenerations) {
  auto hub = std::make_unique<Hub>(HubConfig{}, &clock_, &log_, [](TimePoint) {});
  auto stream = std::make_shared<FakeStream>();
  hub->Opened(stream, "j", {"a", "h", ""});
  hub->Said(stream.get(), "j", "a", HelloOf(1, 1));
  const GenerationId first = hub->Status("j")->generation;
  hub->Said(stream.get(), "j", "a", FromWorker{Incarnation(1), Leave{first}});
  hub->Closed(stream.get(), "j", "a");
  EXPECT_EQ(hub->Status("j").status().code(), absl::StatusCode::kNotFound);
  hub->Opened(stream, "j", {"a", "h", ""});
  hub->Said(stream.get(), "j", "a", HelloOf(2, 1));
  EXPECT_GT(hub->Status("j")->generation.number, first.number);
}

TEST_F(HubTest, AGenerationNumberThatCannotBeIsNotBelieved) {
  HubConfig config;
  config.job.controller_incarnation = 5;
  auto hub = std::make_unique<Hub>(config, &clock_, &log_, [](TimePoint) {});
  auto stream = std::make_shared<FakeStream>();
  hub->Opened(stream, "j", {"a", "h", ""});
  for (uint64_t number : {~uint64_t{0}, ~uint64_t{0} - 1, uint64_t{1} << 63, uint64_t{1} << 40}) {
    AgentUp elastic = HelloOf(number, 1);
    std::get<Hello>(std::get<FromWorker>(elastic).message).elastic = {1, 1, 0, number, Rank(0)};
    hub->Said(stream.get(), "j", "a", elastic);
    EXPECT_THAT(stream->sent.back(), ::testing::HasSubstr("which is impossible"));
    AgentUp earlier = HelloOf(number, 1);
    std::get<Hello>(std::get<FromWorker>(earlier).message).generation = {number, 4};
    hub->Said(stream.get(), "j", "a", earlier);
    EXPECT_THAT(stream->sent.back(), ::testing::HasSubstr("does not know generation"));
    EXPECT_EQ(hub->Status("j")->state, JobState::kGathering);
  }
  hub->Said(stream.get(), "j", "a", HelloOf(1, 1));
  EXPECT_EQ(hub->Status("j")->generation.number, 1u);
}

TEST_F(HubTest, AForgottenJobHandsItsNumberToNoOther) {
  auto hub = std::make_unique<Hub>(HubConfig{}, &clock_, &log_, [](TimePoint) {});
  auto stream = std::make_shared<FakeStream>();
  for (const char* job : {"i", "j"}) {
    hub->Opened(stream, job, {"a", "h", ""});
    hub->Said(stream.get(), job, "a", HelloOf(1, 1));
    const GenerationId first = hub->Status(job)->generation;
    EXPECT_EQ(first.number, 1u);
    hub->Said(stream.get(), job, "a", FromWorker{Incarnation(1), Leave{first}});
    hub->Closed(stream.get(), job, "a");
    EXPECT_EQ(hub->Status(job).status().code(), absl::StatusCode::kNotFound);
  }
}

}  // namespace
}  // namespace farandole::controller::hub
