#include "worker/runtime.h"

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/device/device_testing.h"
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

TEST_F(RuntimeTest, LeaveWaitsForADevice) {
  constexpr uint32_t kDeviceMs = 300;
  collective::FakeDevice::Control control;
  device_ = &control;
  device::CountingDevice device;
  Join({1, kLong, kDeviceMs});
  Request request = MakeRequest("running");
  request.signature.device = DeviceKind::kAccelerator;
  auto running =
      std::make_shared<session::Operation>(request, &value_, &value_, nullptr,
                                           std::make_unique<session::Operation::OnDevice>(session::Operation::OnDevice{
                                               &device, nullptr, device.Record(nullptr).value()}));
  ASSERT_TRUE(runtime_->Submit(running).ok());
  const int64_t began_ns = Clock::Monotonic().Now().ns();
  runtime_->Flush();
  link_->Hear<Announce>();
  Dispatch(1, "running");
  ASSERT_EQ(control.Started(1).size(), 1u);
  runtime_->BeginLeave();
  EXPECT_TRUE(runtime_->WaitLeft(kLong));
  EXPECT_GE(Clock::Monotonic().Now().ns() - began_ns, kDeviceMs * int64_t{1000000});
  link_->Hear<Leave>();
  EXPECT_NE(link_->Hear<Failed>().reason.find("its device has not done what was submitted within 0.3 s"),
            std::string::npos);
  ASSERT_TRUE(running->Wait(kLong));
  EXPECT_EQ(running->result().code, completion::Code::kShutDown);
  runtime_->Stop();
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

TEST_F(RuntimeTest, SaysWhatAnElasticJobIsAndWhoItWas) {
  MakeElastic(kLong, 2 * kLong);
  link_->State(true);
  const Hello hello = link_->Hear<Hello>();
  EXPECT_EQ(hello.elastic.min_size, 2);
  EXPECT_EQ(hello.elastic.max_size, 3);
  EXPECT_EQ(hello.elastic.settle_ms, uint32_t{kLong});
  EXPECT_EQ(hello.elastic.previous_generation, 6u);
  EXPECT_EQ(hello.elastic.previous_rank, Rank(5));
  EXPECT_EQ(hello.elastic.state_generation, 4u);
  EXPECT_EQ(hello.elastic.home, 3u);
}

TEST_F(RuntimeTest, WaitReadyIsPendingMeanwhile) {
  Make();
  EXPECT_EQ(runtime_->WaitReady(0).code, completion::Code::kPending);
  EXPECT_EQ(runtime_->WaitReady(1).code, completion::Code::kPending);
}

}  // namespace
}  // namespace farandole::worker
