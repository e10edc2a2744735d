#include "worker/control/steps.h"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "worker/link/fake_link_testing.h"

namespace farandole::worker::control {
namespace {

using link::kGeneration;
using link::kLong;

class NoOwner final : public execute::Executor::Owner {
 public:
  void OnDone(session::Work) override {}
  void OnBroken(session::Work, const absl::Status&, Rank) override {}
  void OnWithdrawn(session::Work) override {}
};

// The loop and the executor do not run: what happens does so in the test's thread.
class StepsTest : public testing::Test {
 protected:
  StepsTest() : steps_(Identity(), {&loop_, &link_, &executor_, &timeline_, &idle_}, [this] { ++joined_; }) {}

  static session::Session::Identity Identity() {
    session::Session::Identity identity;
    identity.incarnation = Incarnation(42);
    identity.size = 2;
    return identity;
  }
  void Join() {
    Steps::Step step(&steps_);
    steps_.Apply(steps_.session().LinkUp());
    steps_.Apply(steps_.session().Received(Welcome{1, 100, {}}, TimePoint()));
    View view;
    view.generation = kGeneration;
    view.members.resize(2);
    view.members[0].rank = Rank(0);
    view.members[0].worker_incarnation = Incarnation(42);
    view.members[1].rank = Rank(1);
    view.members[1].worker_incarnation = Incarnation(1);
    steps_.Apply(steps_.session().Received(view, TimePoint()));
  }
  std::shared_ptr<session::Operation> Make() {
    return std::make_shared<session::Operation>(Request(), &value_, &value_);
  }
  void GiveUp() {
    Steps::Step step(&steps_);
    steps_.Apply(steps_.session().GiveUp({completion::Code::kShutDown, "over"}));
  }

  float value_ = 1;
  EventLoop loop_{"test-ctl"};
  link::FakeLink link_{&loop_, Incarnation(42)};
  timeline::JobTimeline timeline_{&loop_, &link_};
  LoopIdle idle_{&loop_};
  NoOwner owner_;
  execute::Executor executor_{nullptr, &owner_};
  int joined_ = 0;
  Steps steps_;
};

TEST_F(StepsTest, SaysWhatTheSessionSaysAndTellsOfTheView) {
  const uint32_t seen = steps_.changed().Value();
  Join();
  EXPECT_EQ(link_.Hear<Hello>().session, 1u);
  EXPECT_EQ(joined_, 1);
  EXPECT_NE(steps_.changed().Value(), seen);
}

TEST_F(StepsTest, WhatAStepLeavesFollowsWhenTheSessionIsFree) {
  GiveUp();
  auto operation = Make();
  {
    Steps::Step step(&steps_);
    steps_.End({operation}, steps_.session().end());
    EXPECT_FALSE(operation->done());
  }
  EXPECT_TRUE(operation->done());
  EXPECT_EQ(operation->result().text, "over");
  steps_.AwaitEndings();
}

TEST_F(StepsTest, InTheLoopItFollowsWhenThatIsFreeToo) {
  GiveUp();
  auto operation = Make();
  loop_.RunHere([&] {
    {
      Steps::Step step(&steps_);
      steps_.End({operation}, steps_.session().end());
    }
    EXPECT_FALSE(operation->done());
  });
  EXPECT_TRUE(operation->done());
}

TEST_F(StepsTest, WhatIsParkedEndsWithTheMembership) {
  Join();
  auto operation = Make();
  {
    Steps::Step step(&steps_);
    steps_.Park({operation});
  }
  EXPECT_FALSE(operation->done());
  GiveUp();
  EXPECT_EQ(operation->result().text, "over");
}

// Those that submit at the end of a membership end what they have submitted themselves.
TEST_F(StepsTest, EndingsOfOtherThreadsAreWaitedFor) {
  GiveUp();
  constexpr int kThreads = 3;
  constexpr int kRounds = 300;
  std::atomic<int> begun{0}, ended{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        auto operation = Make();
        {
          Steps::Step step(&steps_);
          steps_.End({operation}, steps_.session().end());
          ++begun;
        }
        if (operation->done()) ++ended;
      }
    });
  }
  while (ended < kThreads * kRounds) {
    const int before = begun;
    steps_.AwaitEndings();
    // At most the last one of each thread is not counted yet.
    EXPECT_GE(ended + kThreads, before);
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace farandole::worker::control
