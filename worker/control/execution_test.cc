#include "worker/control/execution.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/runtime_testing.h"

namespace farandole::worker::control {
namespace {

using testing::HasSubstr;

// Among its neighbours in a Runtime.
using ExecutionTest = RuntimeTest;

TEST_F(ExecutionTest, ErrorItemsAndBarriersAreAnswers) {
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

TEST_F(ExecutionTest, RemovedEndsWhatIsInFlightQueuedAndOpen) {
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

TEST_F(ExecutionTest, AnErrorOfTheJobIsToldAlsoWhenItsEndOvertakesIt) {
  Join();
  control_.hang = true;
  auto running = Submit("running");
  auto wrong = Submit("wrong");
  Dispatch(1, "running");
  link_->Say(Item{kGeneration, 0, 2, ErrorItem{0, {"wrong"}, ErrorKind::kMismatch, "shapes differ"}});
  while (control_.entered.Value() == 0) control_.entered.WaitPast(0, kLong);
  link_->Say(Removed{kGeneration, RemovedKind::kPeerLost, "rank 1 (pid 9 on host b) exited with code 1"});
  ASSERT_TRUE(running->Wait(kLong));
  EXPECT_EQ(running->result().code, completion::Code::kPeerLost);
  ASSERT_TRUE(wrong->Wait(kLong));
  EXPECT_EQ(wrong->result().code, completion::Code::kMismatch);
  EXPECT_EQ(wrong->result().text, "shapes differ");
}

TEST_F(ExecutionTest, BrokenDataPlaneWaitsForTheCulpritsName) {
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

TEST_F(ExecutionTest, BrokenDataPlaneEndsByItselfInTime) {
  build_ = absl::ResourceExhaustedError("no shared memory");
  Join({kLong, 1});
  auto operation = Submit("a");
  Dispatch(1, "a");
  ASSERT_TRUE(operation->Wait(kLong));
  EXPECT_EQ(operation->result().code, completion::Code::kPeerLost);
  EXPECT_THAT(operation->result().text, HasSubstr("no shared memory"));
}

}  // namespace
}  // namespace farandole::worker::control
