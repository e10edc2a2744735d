#include "worker/membership.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/runtime_testing.h"

namespace farandole::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Among its neighbours in a Runtime.
class MembershipTest : public RuntimeTest {
 protected:
  const Membership& membership() { return runtime_->membership(); }
  std::string WhyNotShared(uint32_t process_set = 0) {
    return std::string(runtime_->membership().AllocateShared(process_set, 64).status().message());
  }
  void AddSet(uint32_t id, std::vector<Rank> ranks) {
    auto operation = Submit("set");
    SetChanged changed;
    changed.name = "set";
    changed.process_set.id = id;
    changed.process_set.ranks = std::move(ranks);
    link_->Say(Item{kGeneration, 0, 1, changed});
    ASSERT_TRUE(operation->Wait(kLong));
  }
};

TEST_F(MembershipTest, BeginsWithTheFirstView) {
  Make();
  EXPECT_THAT(WhyNotShared(), HasSubstr("not a member"));
  EXPECT_EQ(membership().PlaceIn(0).size, 0);
  EXPECT_FALSE(membership().process_set(0).has_value());
  BecomeMember();
  ASSERT_TRUE(runtime_->WaitReady(kLong).ok());
  EXPECT_EQ(membership().view().generation, kGeneration);
  EXPECT_EQ(membership().self().worker_incarnation, link_->worker);
  EXPECT_EQ(membership().PlaceIn(0).size, 2);
  EXPECT_EQ(membership().PlaceIn(0).position, 0);
  EXPECT_TRUE(membership().PlaceIn(0, Rank(1)).has_root);
  EXPECT_FALSE(membership().PlaceIn(0, Rank(2)).has_root);
  EXPECT_EQ(membership().PlaceIn(7).size, 0);
}

TEST_F(MembershipTest, GroupsAreFoundAtTheAddressThatTheAgentSays) {
  Join();
  auto operation = Submit("x");
  Dispatch(1, "x");
  ASSERT_TRUE(operation->Wait(kLong));
  EXPECT_EQ(built_at_, "10.0.0.7");
}

TEST_F(MembershipTest, KnowsTheProcessSetsThatItIsNotIn) {
  Join();
  AddSet(1, {Rank(1)});
  EXPECT_THAT(membership().process_set(1)->ranks, ElementsAre(Rank(1)));
  EXPECT_EQ(membership().PlaceIn(1).size, 1);
  EXPECT_EQ(membership().PlaceIn(1).position, -1);
}

TEST_F(MembershipTest, SaysWhyMemoryIsNotShared) {
  Join();
  EXPECT_THAT(WhyNotShared(7), HasSubstr("no process set 7"));
  AddSet(1, {Rank(0)});
  EXPECT_THAT(WhyNotShared(1), HasSubstr("has one member"));
  // The link of this test has no segments.
  EXPECT_THAT(WhyNotShared(), HasSubstr("over"));
}

TEST_F(MembershipTest, OtherHostsAndOtherCommunicatorsShareNoMemory) {
  Config config;
  config.start_timeout_ms = kLong;
  config.communicator = "tcp";
  Make(config, {kLong, kLong});
  BecomeMember();
  ASSERT_TRUE(runtime_->WaitReady(kLong).ok());
  EXPECT_THAT(WhyNotShared(), HasSubstr("FARANDOLE_COMMUNICATOR is tcp"));
}

}  // namespace
}  // namespace farandole::worker
