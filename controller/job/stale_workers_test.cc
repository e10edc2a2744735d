#include "controller/job/stale_workers.h"

#include <string>
#include <variant>

#include "gtest/gtest.h"

namespace farandole::controller::job {
namespace {

class StaleWorkersTest : public ::testing::Test {
 protected:
  Removed Told(const GenerationId& generation) const {
    Hello hello;
    hello.worker_incarnation = Incarnation(5);
    hello.pid = 100;
    hello.generation = generation;
    Actions actions;
    stale_.TurnAway("a", hello, &actions);
    EXPECT_EQ(actions.sends.size(), 1u);
    EXPECT_EQ(actions.reason.find("pid 100 on host h was turned away: "), 0u) << actions.reason;
    return std::get<Removed>(std::get<WorkerDown>(actions.sends.at(0).message));
  }
  void SetUp() override { agents_.Connect({"a", "h", "0.1.0", 0}, TimePoint(1000)); }

  members::AgentTable agents_{3000, 30000};
  StaleWorkers stale_{"j", {{1, 7}, "rank 3 died"}, &agents_};
};

TEST_F(StaleWorkersTest, AMemberOfTheLastGenerationLearnsWhyItEnded) {
  EXPECT_TRUE(stale_.KnowsEnd({1, 7}));
  const Removed removed = Told({1, 7});
  EXPECT_EQ(removed.kind, RemovedKind::kPeerLost);
  EXPECT_EQ(removed.reason, "rank 3 died");
}

TEST_F(StaleWorkersTest, OfAnyOtherNothingIsKnown) {
  stale_.Ended({{2, 7}, "rank 1 died"});
  EXPECT_FALSE(stale_.KnowsEnd({1, 7}));
  const Removed removed = Told({1, 7});
  EXPECT_EQ(removed.kind, RemovedKind::kGone);
  EXPECT_EQ(removed.generation, (GenerationId{1, 7}));
  EXPECT_NE(removed.reason.find("does not know generation 1 of job j"), std::string::npos);
  EXPECT_EQ(Told({2, 7}).reason, "rank 1 died");
}

TEST_F(StaleWorkersTest, OneThatAllHaveLeftHasNoReason) {
  stale_.Ended({{2, 7}, ""});
  EXPECT_FALSE(stale_.KnowsEnd({2, 7}));
  EXPECT_EQ(Told({2, 7}).kind, RemovedKind::kGone);
}

}  // namespace
}  // namespace farandole::controller::job
