#include "worker/control/start_limit.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/runtime_testing.h"

namespace farandole::worker::control {
namespace {

using testing::HasSubstr;

// Among its neighbours in a Runtime.
using StartLimitTest = RuntimeTest;

TEST_F(StartLimitTest, StartTimeNamesTheMissingRanks) {
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

TEST_F(StartLimitTest, AnElasticJobThatIsTooSmallSaysSo) {
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

TEST_F(StartLimitTest, AControllerThatDoesNotAnswerIsNotWaitedForSoLong) {
  MakeElastic(500, 1000000);
  link_->State(false, "127.0.0.1:1: connection refused");
  const completion::Result result = runtime_->WaitReady(kLong);
  EXPECT_EQ(result.code, completion::Code::kUnavailable);
  EXPECT_THAT(result.text, HasSubstr("within 0.5 s (FARANDOLE_START_TIMEOUT): 127.0.0.1:1: connection refused"));
}

TEST_F(StartLimitTest, StartTimeNamesTheWayThatIsMissing) {
  Make(500);  // long enough for the way to be heard of on a busy machine
  link_->State(false, "127.0.0.1:1: connection refused");
  const completion::Result result = runtime_->WaitReady(kLong);
  EXPECT_EQ(result.code, completion::Code::kUnavailable);
  EXPECT_THAT(result.text, HasSubstr("127.0.0.1:1: connection refused"));
}

TEST_F(StartLimitTest, PermanentRefusalEndsInitAtOnce) {
  Make();
  link_->State(false, "the token is wrong", true);
  const completion::Result result = runtime_->WaitReady(kLong);
  EXPECT_EQ(result.code, completion::Code::kRefused);
  EXPECT_EQ(result.text, "the token is wrong");
}

}  // namespace
}  // namespace farandole::worker::control
