#include "controller/job/job.h"

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace farandole::controller::job {
namespace {

const WorkerDown& Inner(const Send& send) { return std::get<WorkerDown>(send.message); }

Hello HelloOf(uint64_t worker, int rank, int size) {
  Hello hello;
  hello.session = 1;
  hello.worker_incarnation = Incarnation(worker);
  hello.pid = 100 + rank;
  hello.version = "0.1.0";
  hello.rank = Rank(rank);
  hello.size = size;
  return hello;
}

// Longer stories are told in tests/transcripts.
TEST(JobTest, ALoneProcessIsServedWithoutAnythingAroundIt) {
  JobConfig config;
  config.controller_incarnation = 9;
  Job job("lone", config);
  const TimePoint now(1000);
  EXPECT_TRUE(job.Idle());
  ASSERT_EQ(job.AgentConnected({"self", "here", "0.1.0"}, now).sends.size(), 1u);

  const Actions joined = job.AgentSaid("self", FromWorker{Incarnation(5), HelloOf(5, 0, 1)}, now);
  ASSERT_EQ(joined.sends.size(), 2u);
  EXPECT_EQ(std::get<Welcome>(Inner(joined.sends[0])).session, 1u);
  const View view = std::get<View>(Inner(joined.sends[1]));
  ASSERT_EQ(view.members.size(), 1u);
  EXPECT_EQ(view.generation, (GenerationId{1, 9}));

  Announce announce;
  announce.generation = view.generation;
  announce.requests.push_back({"a", {OpKind::kAllreduce, DataType::kFloat32, {4}}});
  const Actions batched = job.AgentSaid("self", FromWorker{Incarnation(5), announce}, now);
  ASSERT_EQ(batched.sends.size(), 1u);
  const Item item = std::get<Item>(Inner(batched.sends[0]));
  EXPECT_EQ(item.index, 1u);
  EXPECT_EQ(std::get<Batch>(item.body).entries[0].name, "a");

  EXPECT_TRUE(job.AgentSaid("self", FromWorker{Incarnation(5), Leave{view.generation, 1, 0}}, now).sends.empty());
  const Actions left = job.AgentSaid("self", FromWorker{Incarnation(5), Ack{view.generation, 1, 1}}, now);
  ASSERT_EQ(left.sends.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<LeaveDone>(std::get<Item>(Inner(left.sends[0])).body));
  EXPECT_FALSE(job.Idle());
  job.AgentDisconnected("self", now);
  EXPECT_TRUE(job.Idle());
}

// Sends of a job whose only worker announces these.
class OneWorkerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    job_.AgentConnected({"self", "here", "0.1.0", 0}, now_);
    const Actions joined = job_.AgentSaid("self", FromWorker{Incarnation(5), HelloOf(5, 0, 1), {}}, now_);
    generation_ = std::get<View>(Inner(joined.sends.at(1))).generation;
  }
  static JobConfig Config() {
    JobConfig config;
    config.unstable_items_max = 2;
    return config;
  }
  Actions Announces(std::vector<Request> requests) {
    Announce announce;
    announce.generation = generation_;
    announce.requests = std::move(requests);
    return job_.AgentSaid("self", FromWorker{Incarnation(5), announce, {}}, now_);
  }

  Job job_{"lone", Config()};
  const TimePoint now_{1000};
  GenerationId generation_;
};

TEST_F(OneWorkerTest, WhatANewerReleaseKnowsIsRefusedAlone) {
  const Actions refused = Announces({{"a", {OpKind::kAllreduce, kUnknownValue<DataType>, {4}}}});
  ASSERT_EQ(refused.sends.size(), 1u);
  const auto error = std::get<ErrorItem>(std::get<Item>(Inner(refused.sends[0])).body);
  EXPECT_EQ(error.names, std::vector<std::string>{"a"});
  EXPECT_NE(error.text.find("release 0.1.0, does not know"), std::string::npos) << error.text;
  const Actions batched = Announces({{"b", {OpKind::kAllreduce, DataType::kFloat32, {4}}}});
  EXPECT_TRUE(std::holds_alternative<Batch>(std::get<Item>(Inner(batched.sends.at(0))).body));
}

TEST_F(OneWorkerTest, RefusalsThatWaitAreBounded) {
  Request request{"a", {OpKind::kAllreduce, DataType::kFloat32, {4}}};
  request.signature.process_set = 7;  // there is none
  const std::vector<Request> many(8000, request);
  // Never says that it has received anything, so that only the first two have an index in the log.
  for (int i = 0; i < 20 && job_.Status(now_).state == JobState::kRunning; ++i) Announces(many);
  EXPECT_EQ(job_.Status(now_).state, JobState::kFailed);
  EXPECT_NE(job_.Status(now_).reason.find("more than 65536 open requests"), std::string::npos);
}

// Rank 0 is in a long collective; rank 1, on another host, has received it, too.
class TwoInACollectiveTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* agent : {"a", "b"}) job_.AgentConnected({agent, agent, "0.1.0", 0}, At(0));
    job_.AgentSaid("a", FromWorker{Incarnation(5), HelloOf(5, 0, 2)}, At(0));
    job_.AgentSaid("b", FromWorker{Incarnation(6), HelloOf(6, 1, 2)}, At(0));
    generation_ = job_.Status(At(0)).generation;
    Announce announce;
    announce.generation = generation_;
    announce.requests.push_back({"x", {OpKind::kAllreduce, DataType::kFloat32, {4}}});
    for (int r : {0, 1}) job_.AgentSaid(Agent(r), FromWorker{Incarnation(5 + r), announce}, At(0));
    for (int r : {0, 1}) job_.AgentSaid(Agent(r), FromWorker{Incarnation(5 + r), Ack{generation_, 1, 0}}, At(0));
  }
  static TimePoint At(int64_t ms) { return TimePoint(1000000000).PlusMs(ms); }
  static const char* Agent(int rank) { return rank == 0 ? "a" : "b"; }
  // For how long ranks wait for rank 1; -1: they do not.
  int64_t AgeMs(int64_t ms) {
    WorkerReport report;
    report.worker_incarnation = Incarnation(5);
    report.generation = generation_;
    report.in_flight = "x";
    report.in_flight_item = 1;
    report.in_flight_ms = ms;
    job_.AgentSaid("a", Lease{{report}}, At(ms));
    const JobStatus status = job_.Status(At(ms));
    if (status.waits.empty() || status.waits[0].missing_ranks.empty()) return -1;
    EXPECT_EQ(status.waits[0].missing_ranks, std::vector<Rank>{Rank(1)});
    return status.waits[0].age_ms;
  }
  void IsStopped(int64_t ms) {
    job_.AgentSaid("b", WorkerHealth{Incarnation(6), false, "is stopped by a signal"}, At(ms));
  }

  Job job_{"two", JobConfig{}};
  GenerationId generation_;
};

TEST_F(TwoInACollectiveTest, ASilentRankIsWaitedForSinceItFellSilent) {
  EXPECT_EQ(AgeMs(20000), -1);
  IsStopped(20500);
  EXPECT_EQ(AgeMs(22000), 1500);
  // A newer stream of its agent says it again.
  job_.AgentDisconnected("b", At(23000));
  EXPECT_EQ(AgeMs(23500), 3000);
  job_.AgentConnected({"b", "b", "0.1.0", 0}, At(24000));
  IsStopped(24000);
  EXPECT_EQ(AgeMs(25000), 4500);
}

TEST_F(TwoInACollectiveTest, ARankOutOfReachIsWaitedForSinceThen) {
  job_.AgentDisconnected("b", At(20000));
  EXPECT_EQ(AgeMs(21000), 1000);
}

TEST(JobTest, AWorkerInAnUnknownStateIsRefusedAlone) {
  Job job("lone", JobConfig{});
  const TimePoint now(1000);
  job.AgentConnected({"self", "here", "0.1.0", 0}, now);
  Hello hello = HelloOf(5, 0, 1);
  hello.state = kUnknownValue<WorkerState>;
  const Actions refused = job.AgentSaid("self", FromWorker{Incarnation(5), hello, {}}, now);
  ASSERT_EQ(refused.sends.size(), 1u);
  EXPECT_EQ(std::get<Removed>(Inner(refused.sends[0])).kind, RemovedKind::kRefused);
}

TEST(JobTest, WelcomeNamesTheRanksThatHaveNotCome) {
  Job job("lone", JobConfig{});
  const TimePoint now(1000);
  job.AgentConnected({"self", "here", "0.1.0"}, now);
  Hello any = HelloOf(5, -1, 4);
  const Actions first = job.AgentSaid("self", FromWorker{Incarnation(5), any}, now);
  EXPECT_EQ(std::get<Welcome>(Inner(first.sends[0])).missing_ranks, (std::vector<Rank>{Rank(1), Rank(2), Rank(3)}));
  const Actions second = job.AgentSaid("self", FromWorker{Incarnation(6), HelloOf(6, 1, 4)}, now);
  EXPECT_EQ(std::get<Welcome>(Inner(second.sends[0])).missing_ranks, (std::vector<Rank>{Rank(2), Rank(3)}));
}

TEST(JobTest, WhoGivesUpInitIsForgottenOrEndsTheGeneration) {
  Job job("lone", JobConfig{});
  const TimePoint now(1000);
  job.AgentConnected({"self", "here", "0.1.0"}, now);
  job.AgentSaid("self", FromWorker{Incarnation(5), HelloOf(5, 0, 2)}, now);
  job.AgentSaid("self", FromWorker{Incarnation(5), Leave{}}, now);
  const Actions alone = job.AgentSaid("self", FromWorker{Incarnation(6), HelloOf(6, 1, 2)}, now);
  EXPECT_EQ(alone.sends.size(), 1u) << "rank 0 is missing again";
  job.AgentSaid("self", FromWorker{Incarnation(7), HelloOf(7, 0, 2)}, now);
  // The view and this crossed each other.
  const Actions failed = job.AgentSaid("self", FromWorker{Incarnation(7), Leave{}}, now);
  ASSERT_EQ(failed.sends.size(), 1u);
  EXPECT_EQ(std::get<Removed>(Inner(failed.sends[0])).reason, "rank 0 (pid 100 on host here) gave up init()");
}

TEST(JobTest, KeysBelongToTheCurrentGeneration) {
  Job job("lone", JobConfig{});
  const TimePoint now(1000);
  job.AgentConnected({"self", "here", "0.1.0"}, now);
  const GenerationId first{1, 0};
  EXPECT_EQ(job.Find(first, "k").status().code(), absl::StatusCode::kFailedPrecondition);
  job.AgentSaid("self", FromWorker{Incarnation(5), HelloOf(5, 0, 1)}, now);
  EXPECT_EQ(job.Find(first, "k").status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(job.Put(first, "k", "v").ok());
  EXPECT_EQ(*job.Find(first, "k"), "v");
  EXPECT_EQ(job.Put(GenerationId{2, 0}, "k", "v").code(), absl::StatusCode::kFailedPrecondition);
  job.AgentSaid("self", FromWorker{Incarnation(5), Leave{first}}, now);
  EXPECT_EQ(job.Find(first, "k").status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(JobTest, KeysOfAProcessSetGoWhenAllHaveCompletedItsRemoval) {
  Job job("lone", JobConfig{});
  const TimePoint now(1000);
  const GenerationId generation{1, 0};
  job.AgentConnected({"self", "here", "0.1.0"}, now);
  for (int rank : {0, 1}) job.AgentSaid("self", FromWorker{Incarnation(5 + rank), HelloOf(5 + rank, rank, 2)}, now);
  const auto change = [&](OpKind op, int64_t number, uint64_t through) {
    Announce announce;
    announce.generation = generation;
    announce.received_through = announce.completed_through = through;
    announce.requests.push_back({"change", {op, DataType::kInt64, {number}}});
    for (uint64_t worker : {5, 6}) job.AgentSaid("self", FromWorker{Incarnation(worker), announce}, now);
  };
  // Whether the key is still there when the next is put.
  int puts = 0;
  const auto kept = [&] {
    EXPECT_TRUE(job.Put(generation, absl::StrCat("0/", ++puts), "v").ok());
    return job.Find(generation, "1.1/shm/0").ok();
  };
  change(OpKind::kAddProcessSet, 0, 0);
  EXPECT_TRUE(job.Put(generation, "1.1/shm/0", "v").ok());
  EXPECT_TRUE(kept());
  change(OpKind::kRemoveProcessSet, 1, 1);
  EXPECT_TRUE(kept());
  job.AgentSaid("self", FromWorker{Incarnation(5), Ack{generation, 2, 2}}, now);
  job.AgentSaid("self", FromWorker{Incarnation(6), Ack{generation, 2, 1}}, now);
  EXPECT_TRUE(kept()) << "rank 1 may still be at a batch of that process set";
  job.AgentSaid("self", FromWorker{Incarnation(6), Ack{generation, 2, 2}}, now);
  EXPECT_FALSE(kept());
}

TEST(JobTest, TheNextDeadlineIsThatOfTheAgentOrOfTheEvidence) {
  JobConfig config;
  config.suspect_after_ms = 3000;
  config.evidence_wait_ms = 1000;
  Job job("lone", config);
  EXPECT_EQ(job.NextDeadline(), TimePoint::Infinite());
  const TimePoint now(1000);
  job.AgentConnected({"self", "here", "0.1.0"}, now);
  EXPECT_EQ(job.NextDeadline(), now.PlusMs(3000));
  job.AgentSaid("self", FromWorker{Incarnation(5), HelloOf(5, 0, 1)}, now);
  job.AgentSaid("self", FromWorker{Incarnation(5), Failed{{1, 0}, "broken", Rank()}}, now);
  EXPECT_EQ(job.NextDeadline(), now.PlusMs(1000));
  const Actions failed = job.Tick(now.PlusMs(1000));
  ASSERT_EQ(failed.sends.size(), 1u);
  EXPECT_EQ(std::get<Removed>(Inner(failed.sends[0])).reason, "rank 0 (pid 100 on host here) reports: broken");
}

TEST(JobTest, AWorkerThatIsNamedTwiceInOneMessageSaysItOnce) {
  Job job("j", JobConfig());
  const TimePoint now(1000);
  job.AgentConnected({"a", "h", "0.1.0"}, now);
  job.AgentSaid("a", FromWorker{Incarnation(5), HelloOf(5, 0, 2), {}}, now);
  job.AgentSaid("a", FromWorker{Incarnation(6), HelloOf(6, 1, 2), {}}, now);
  ASSERT_EQ(job.Status(now).state, JobState::kRunning);
  Announce announce;
  announce.generation = job.Status(now).generation;
  announce.requests.push_back({"x", {OpKind::kAllreduce, DataType::kFloat32, {4}}});
  // What cannot be is not read where the worker is named again.
  const std::vector<SameFrom> same = {{Incarnation(6), 0, 0}, {Incarnation(6), 99, 0}, {Incarnation(5), 99, 0}};
  job.AgentSaid("a", FromWorker{Incarnation(5), announce, same}, now);
  EXPECT_EQ(job.Status(now).state, JobState::kRunning) << job.Status(now).reason;
  EXPECT_EQ(job.Status(now).items, 1u);
}

TEST(JobTest, AGenerationThatTakesTooMuchMemoryFails) {
  Job job("j", JobConfig());
  const TimePoint now(1000);
  job.AgentConnected({"a", "h", "0.1.0"}, now);
  job.AgentSaid("a", FromWorker{Incarnation(5), HelloOf(5, 0, 2), {}}, now);
  job.AgentSaid("a", FromWorker{Incarnation(6), HelloOf(6, 1, 2), {}}, now);
  Announce announce;
  announce.generation = job.Status(now).generation;
  announce.requests.push_back({"", {OpKind::kAlltoall, DataType::kFloat32, {4}}});
  announce.requests[0].signature.splits.resize(65536);
  int open = 0;
  for (; open < 1000 && job.Status(now).state == JobState::kRunning; ++open) {
    announce.requests[0].name = absl::StrCat(open);
    job.AgentSaid("a", FromWorker{Incarnation(6), announce, {}}, now);
  }
  EXPECT_GT(open, 400);
  EXPECT_EQ(job.Status(now).state, JobState::kFailed);
  EXPECT_EQ(job.Status(now).reason.find("its members have announced more than 256 MiB of requests; rank 1"), 0u)
      << job.Status(now).reason;
}

TEST(JobTest, ItIsSaidThatTheVariablesOfARankZeroThatHasLeftAreNotKnown) {
  JobConfig config;
  config.controller_incarnation = 9;
  Job job("j", config);
  const TimePoint now(1000);
  job.AgentConnected({"a", "h", "0.1.0"}, now);
  Recalled recalled;
  recalled.generation = recalled.view.generation = {3, 7};
  for (int r = 0; r < 2; ++r) {
    Member member;
    member.rank = Rank(r);
    member.host = "h";
    member.agent_id = "a";
    member.worker_incarnation = Incarnation(5 + r);
    recalled.view.members.push_back(member);
  }
  Hello hello = HelloOf(6, 1, 2);
  hello.generation = recalled.generation;
  hello.knows_all_hosts = true;
  job.AgentSaid("a", FromWorker{Incarnation(6), hello, {}}, now);
  job.AgentSaid("a", FromWorker{Incarnation(6), recalled, {}}, now);
  WorkerEnded left{Incarnation(5), 100, "exited"};
  left.left = true;
  const Actions actions = job.AgentSaid("a", left, now);
  EXPECT_EQ(job.Status(now).state, JobState::kRunning) << actions.reason;
  EXPECT_NE(actions.reason.find("has left before, so that what it set for the job with variables is not known"),
            std::string::npos)
      << actions.reason;
}

}  // namespace
}  // namespace farandole::controller::job
