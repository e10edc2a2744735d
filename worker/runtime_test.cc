#include "worker/runtime.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/runtime_testing.h"

namespace farandole::worker {
namespace {

using testing::HasSubstr;

TEST_F(RuntimeTest, AnnouncesExecutesAnswers) {
  Join();
  auto operation = Submit("a");
  EXPECT_EQ(link_->Hear<Announce>().requests[0].name, "a");
  EXPECT_FALSE(operation->Wait(0));
  Dispatch(1, "a");
  ASSERT_TRUE(operation->Wait(kLong));
  EXPECT_TRUE(operation->result().ok());
  EXPECT_EQ(value_, 6);
  Submit("a");
  EXPECT_EQ(link_->Hear<Announce>().completed_through, 1u);
}

TEST_F(RuntimeTest, ABurstIsAnnouncedInOrder) {
  Join();
  constexpr int kRequests = 500;
  for (int i = 0; i < kRequests; ++i) Submit(std::to_string(i));
  runtime_->Flush();
  int next = 0;
  int messages = 0;
  while (next < kRequests) {
    for (const Request& request : link_->Hear<Announce>().requests) ASSERT_EQ(request.name, std::to_string(next++));
    ++messages;
  }
  EXPECT_LT(messages, kRequests);
}

TEST_F(RuntimeTest, AckOnceOutOfWorkWithOpenRequests) {
  Join();
  auto a = Submit("a");
  Submit("b");
  runtime_->Flush();
  Dispatch(1, "a");
  ASSERT_TRUE(a->Wait(kLong));
  size_t announced = 0;
  while (announced < 2) announced += link_->Hear<Announce>().requests.size();
  EXPECT_EQ(link_->Hear<Ack>().completed_through, 1u);
}

TEST_F(RuntimeTest, ErrorItemsAndBarriersAreAnswers) {
  Join();
  auto a = Submit("a");
  auto b = Submit("b");
  link_->Say(Item{kGeneration, 0, 1, ErrorItem{0, {"a"}, ErrorKind::kMismatch, "shapes differ"}});
  link_->Say(Item{kGeneration, 0, 2, BarrierDone{0, "b"}});
  ASSERT_TRUE(a->Wait(kLong));
  EXPECT_EQ(a->result().code, completion::Code::kMismatch);
  EXPECT_EQ(a->result().text, "shapes differ");
  ASSERT_TRUE(b->Wait(kLong));
  EXPECT_TRUE(b->result().ok());
  EXPECT_EQ(control_.entered.Value(), 0u);
}

TEST_F(RuntimeTest, RemovedEndsWhatIsInFlightQueuedAndOpen) {
  Join();
  control_.hang = true;
  auto running = Submit("running");
  auto queued = Submit("queued");
  auto open = Submit("open");
  Dispatch(1, "running");
  Dispatch(2, "queued");
  while (control_.entered.Value() == 0) control_.entered.WaitPast(0, kLong);
  link_->Say(Removed{kGeneration, RemovedKind::kPeerLost, "rank 1 (pid 9 on host b) was killed"});
  for (const auto& operation : {running, queued, open}) {
    ASSERT_TRUE(operation->Wait(kLong)) << operation->request.name;
    EXPECT_EQ(operation->result().code, completion::Code::kPeerLost);
    EXPECT_EQ(operation->result().text, "rank 1 (pid 9 on host b) was killed");
  }
  auto late = std::make_shared<session::Operation>(open->request, &value_, &value_);
  EXPECT_EQ(runtime_->Submit(late).text, "rank 1 (pid 9 on host b) was killed");
  EXPECT_TRUE(runtime_->WaitLeft(0)) << "nothing is left to leave";
}

TEST_F(RuntimeTest, BrokenDataPlaneWaitsForTheCulpritsName) {
  Join();
  control_.status = absl::UnavailableError("connection reset");
  auto operation = Submit("a");
  link_->Hear<Announce>();
  Dispatch(1, "a");
  const Failed failed = link_->Hear<Failed>();
  EXPECT_THAT(failed.reason, HasSubstr("\"a\""));
  EXPECT_THAT(failed.reason, HasSubstr("connection reset"));
  EXPECT_EQ(failed.suspect_rank, Rank(1));
  EXPECT_FALSE(operation->Wait(0));
  link_->Say(Removed{kGeneration, RemovedKind::kPeerLost, "rank 1 was killed"});
  ASSERT_TRUE(operation->Wait(kLong));
  EXPECT_EQ(operation->result().text, "rank 1 was killed");
}

TEST_F(RuntimeTest, BrokenDataPlaneEndsByItselfInTime) {
  build_ = absl::ResourceExhaustedError("no shared memory");
  Join({kLong, 1});
  auto operation = Submit("a");
  Dispatch(1, "a");
  ASSERT_TRUE(operation->Wait(kLong));
  EXPECT_EQ(operation->result().code, completion::Code::kPeerLost);
  EXPECT_THAT(operation->result().text, HasSubstr("no shared memory"));
}

TEST_F(RuntimeTest, NewSessionAfterALostLink) {
  Join();
  Submit("a");
  link_->Hear<Announce>();
  link_->State(false, "gone");
  link_->State(true);
  const Hello hello = link_->Hear<Hello>();
  EXPECT_EQ(hello.session, 2u);
  EXPECT_EQ(hello.open_requests[0].name, "a");
  EXPECT_EQ(hello.generation, kGeneration);
}

TEST_F(RuntimeTest, WhatWaitsForAControllerOutOfReachIsBounded) {
  controller_timeout_ms_ = 50;
  Join();
  auto operation = Submit("a");
  link_->Hear<Announce>();
  link_->State(false, "no route");
  ASSERT_TRUE(operation->Wait(kLong));
  EXPECT_EQ(operation->result().code, completion::Code::kPeerLost);
  EXPECT_THAT(operation->result().text, HasSubstr("the controller has been out of reach for"));
  EXPECT_THAT(operation->result().text, HasSubstr("\"a\" has waited"));
  EXPECT_THAT(operation->result().text, HasSubstr("no route"));
}

TEST_F(RuntimeTest, AReplayGoesOnWithoutTheController) {
  // No step of a busy machine takes as long.
  controller_timeout_ms_ = 3000;
  Join();
  BeginReplay(1, {{"a"}});
  link_->State(false, "no route");
  const TimePoint end = Clock::Monotonic().Now().PlusMs(controller_timeout_ms_ + 500);
  while (Clock::Monotonic().Now() < end) {
    auto operation = Submit("a");
    ASSERT_TRUE(operation->Wait(kLong));
    ASSERT_TRUE(operation->result().ok()) << operation->result().text;
  }
  // A collective that hangs meanwhile has nobody to tell why.
  control_.hang = true;
  auto operation = Submit("a");
  ASSERT_TRUE(operation->Wait(kLong));
  EXPECT_THAT(operation->result().text, HasSubstr("\"a\" has waited"));
}

TEST_F(RuntimeTest, ReplaysWithoutAMessage) {
  Join();
  auto first = Submit("a");
  link_->Hear<Announce>();
  BeginReplay(1, {{"a"}, {"b"}});
  ASSERT_TRUE(first->Wait(kLong)) << "the replay serves what was announced";
  for (int step = 0; step < 50; ++step) {
    auto b = Submit("b");
    ASSERT_TRUE(b->Wait(kLong));
    auto a = Submit("a");
    ASSERT_TRUE(a->Wait(kLong));
    EXPECT_TRUE(a->result().ok());
  }
  EXPECT_EQ(control_.entered.Value(), 101u);
  const WorkerReport report = link_->Report();
  EXPECT_EQ(report.state, WorkerState::kReplay);
  EXPECT_EQ(report.next, 101u);
  EXPECT_LE(report.messages, 3u) << "Hello, one announcement, the acknowledgement of the Replay item";
}

TEST_F(RuntimeTest, BreaksTheReplayThatItsOwnScriptHoldsUp) {
  Join();
  BeginReplay(1, {{"a", "b"}});
  auto a = Submit("a");
  runtime_->Wait(a.get(), 1);
  const Break said = link_->Hear<Break>();
  EXPECT_EQ(said.reason, BreakReason::kIncomplete);
  EXPECT_EQ(said.names, std::vector<std::string>{"b"});
  link_->Say(Halt{kGeneration, 1});
  EXPECT_EQ(link_->Hear<Halted>().next, 0u);
  link_->Say(Item{kGeneration, 1, 2, Resume{1, {}}});
  EXPECT_EQ(link_->Hear<Announce>().requests[0].name, "a");
}

TEST_F(RuntimeTest, ReportsWhatItDidAndWaitsFor) {
  Join();
  auto a = Submit("a");
  Submit("b");
  runtime_->Flush();
  Dispatch(1, "a");
  ASSERT_TRUE(a->Wait(kLong));
  const WorkerReport report = link_->Report();
  EXPECT_EQ(report.generation, kGeneration);
  EXPECT_EQ(report.worker_incarnation, link_->worker);
  EXPECT_EQ(report.batches, 1u);
  EXPECT_EQ(report.bytes, sizeof(float));
  EXPECT_EQ(report.open_requests, 1u);
  EXPECT_EQ(report.oldest_open, "b");
  EXPECT_GT(report.oldest_open_ms, 0u);
  EXPECT_GT(report.slack_us, 0u);
  EXPECT_GE(report.messages, 2u) << "Hello and announcements";
}

TEST_F(RuntimeTest, LeavesAfterWhatWasDispatched) {
  Join();
  auto a = Submit("a");
  auto b = Submit("b");
  runtime_->Flush();
  runtime_->BeginLeave();
  EXPECT_FALSE(runtime_->WaitLeft(0));
  Dispatch(1, "a");
  link_->Say(Item{kGeneration, 0, 2, LeaveDone{}});
  EXPECT_TRUE(runtime_->WaitLeft(kLong));
  runtime_->Stop();
  EXPECT_TRUE(a->result().ok());
  EXPECT_EQ(b->result().code, completion::Code::kShutDown);
}

TEST_F(RuntimeTest, LeaveIsBounded) {
  Join({1, kLong});
  auto open = Submit("open");
  runtime_->BeginLeave();
  EXPECT_TRUE(runtime_->WaitLeft(kLong));
  ASSERT_TRUE(open->Wait(kLong));
  EXPECT_EQ(open->result().code, completion::Code::kShutDown);
}

TEST_F(RuntimeTest, StopAnswersEverything) {
  Join();
  control_.hang = true;
  auto running = Submit("running");
  auto open = Submit("open");
  Dispatch(1, "running");
  while (control_.entered.Value() == 0) control_.entered.WaitPast(0, kLong);
  runtime_->Stop();
  EXPECT_EQ(running->result().code, completion::Code::kShutDown);
  EXPECT_EQ(open->result().code, completion::Code::kShutDown);
}

TEST_F(RuntimeTest, StartTimeNamesTheMissingRanks) {
  Make(1000);  // a quarter of it for the answer
  link_->State(true);
  link_->Hear<Hello>();
  link_->Say(Welcome{1, 100, {Rank(0), Rank(1)}});
  EXPECT_EQ(link_->Hear<Hello>().session, 2u) << "asks again";
  link_->Say(Welcome{2, 100, {Rank(1)}});
  const completion::Result result = runtime_->WaitReady(kLong);
  EXPECT_EQ(result.code, completion::Code::kTimeout);
  EXPECT_THAT(result.text, HasSubstr("rank 1 of 2 has not called init() within 1 s"));
}

TEST_F(RuntimeTest, SaysWhatAnElasticJobIsAndWhoItWas) {
  MakeElastic(kLong, 2 * kLong);
  link_->State(true);
  const Hello hello = link_->Hear<Hello>();
  EXPECT_EQ(hello.elastic.min_size, 2);
  EXPECT_EQ(hello.elastic.max_size, 3);
  EXPECT_EQ(hello.elastic.settle_ms, uint32_t{kLong});
  EXPECT_EQ(hello.elastic.previous_generation, 6u);
  EXPECT_EQ(hello.elastic.previous_rank, Rank(5));
}

TEST_F(RuntimeTest, AnElasticJobThatIsTooSmallSaysSo) {
  MakeElastic(kLong, 1000);
  link_->State(true);
  link_->Hear<Hello>();
  link_->Say(Welcome{1, 100, {}, 2, 2});
  EXPECT_EQ(link_->Hear<Hello>().session, 2u) << "asks again";
  link_->Say(Welcome{2, 100, {}, 1, 2});
  const completion::Result result = runtime_->WaitReady(kLong);
  EXPECT_EQ(result.code, completion::Code::kTimeout);
  EXPECT_THAT(result.text, HasSubstr("only 1 of the 2 processes that the job needs have called init() within 1 s"));
}

TEST_F(RuntimeTest, AControllerThatDoesNotAnswerIsNotWaitedForSoLong) {
  MakeElastic(500, 1000000);
  link_->State(false, "127.0.0.1:1: connection refused");
  const completion::Result result = runtime_->WaitReady(kLong);
  EXPECT_EQ(result.code, completion::Code::kUnavailable);
  EXPECT_THAT(result.text, HasSubstr("within 0.5 s (FARANDOLE_START_TIMEOUT): 127.0.0.1:1: connection refused"));
}

TEST_F(RuntimeTest, StartTimeNamesTheWayThatIsMissing) {
  Make(500);  // long enough for the way to be heard of on a busy machine
  link_->State(false, "127.0.0.1:1: connection refused");
  const completion::Result result = runtime_->WaitReady(kLong);
  EXPECT_EQ(result.code, completion::Code::kUnavailable);
  EXPECT_THAT(result.text, HasSubstr("127.0.0.1:1: connection refused"));
}

TEST_F(RuntimeTest, PermanentRefusalEndsInitAtOnce) {
  Make();
  link_->State(false, "the token is wrong", true);
  const completion::Result result = runtime_->WaitReady(kLong);
  EXPECT_EQ(result.code, completion::Code::kRefused);
  EXPECT_EQ(result.text, "the token is wrong");
}

TEST_F(RuntimeTest, WaitReadyIsPendingMeanwhile) {
  Make();
  EXPECT_EQ(runtime_->WaitReady(0).code, completion::Code::kPending);
  EXPECT_EQ(runtime_->WaitReady(1).code, completion::Code::kPending);
}

}  // namespace
}  // namespace farandole::worker
