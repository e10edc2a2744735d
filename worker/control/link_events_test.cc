#include "worker/control/link_events.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/runtime_testing.h"

namespace farandole::worker::control {
namespace {

using testing::HasSubstr;

// Among its neighbours in a Runtime.
using LinkEventsTest = RuntimeTest;

TEST_F(LinkEventsTest, AckOnceOutOfWorkWithOpenRequests) {
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

TEST_F(LinkEventsTest, NewSessionAfterALostLink) {
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

TEST_F(LinkEventsTest, WhatWaitsForAControllerOutOfReachIsBounded) {
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

TEST_F(LinkEventsTest, AReplayGoesOnWithoutTheController) {
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

TEST_F(LinkEventsTest, ReportsWhatItDidAndWaitsFor) {
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
  EXPECT_EQ(report.communicates_by, "fake");
}

}  // namespace
}  // namespace farandole::worker::control
