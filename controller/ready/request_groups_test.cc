#include "controller/ready/request_groups.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::controller::ready {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Verdict = RequestGroups::Verdict;

const TimePoint kNow(0);

ReadyTensor Of(const std::string& name, const std::string& group, uint32_t size) {
  ReadyTensor tensor;
  tensor.name = name;
  tensor.signature.group = group;
  tensor.signature.group_size = size;
  return tensor;
}

class RequestGroupsTest : public ::testing::Test {
 protected:
  ProcessSets sets_{2};
  const SetMembers& all_ = *sets_.Find(0);
  RequestGroups groups_;
};

TEST_F(RequestGroupsTest, ThereIsAGroupWhenAllOfItAreReady) {
  EXPECT_EQ(groups_.Add(all_, Of("b", "g", 2), kNow).verdict, Verdict::kWaiting);
  EXPECT_EQ(groups_.Add(all_, Of("x", "h", 2), kNow).verdict, Verdict::kWaiting);
  const auto outcome = groups_.Add(all_, Of("a", "g", 2), kNow);
  ASSERT_EQ(outcome.verdict, Verdict::kComplete);
  EXPECT_THAT(outcome.members,
              ElementsAre(::testing::Field(&ReadyTensor::name, "a"), ::testing::Field(&ReadyTensor::name, "b")));
  EXPECT_FALSE(groups_.Empty(0));
}

TEST_F(RequestGroupsTest, OneErrorEndsAll) {
  groups_.Add(all_, Of("a", "g", 3), kNow);
  auto outcome = groups_.Fail(all_, "b", Of("b", "g", 3).signature, "wrong");
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  EXPECT_THAT(outcome.names, ElementsAre("a", "b"));
  outcome = groups_.Add(all_, Of("c", "g", 3), kNow);
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  EXPECT_THAT(outcome.names, ElementsAre("c"));
  EXPECT_EQ(outcome.text, "wrong");
  EXPECT_EQ(groups_.Add(all_, Of("c", "g", 3), kNow).verdict, Verdict::kWaiting) << "that round is over";
}

TEST_F(RequestGroupsTest, TheNameOfAFailedGroupMayBeUsedAgain) {
  groups_.Fail(all_, "a", Of("a", "g", 3).signature, "wrong");
  EXPECT_EQ(groups_.Add(all_, Of("a", "g", 1), kNow).verdict, Verdict::kComplete)
      << "the script did not submit the others, but begins anew";
}

TEST_F(RequestGroupsTest, SizesMustAgree) {
  groups_.Add(all_, Of("a", "g", 2), kNow);
  const auto outcome = groups_.Add(all_, Of("b", "g", 3), kNow);
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  EXPECT_THAT(outcome.text, HasSubstr("3 requests according to b and 2 according to a"));
}

TEST_F(RequestGroupsTest, WaitsSayHowManyAreReady) {
  groups_.Add(all_, Of("a", "g", 2), kNow);
  const auto waits = groups_.Waits(10);
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0].name, "g");
  EXPECT_EQ(waits[0].detail, "1 of 2 requests are ready, the first is `a`");
  EXPECT_EQ(waits[0].ready.count(), 2);
}

TEST_F(RequestGroupsTest, WhatWaitsCanBeTakenOrDropped) {
  groups_.Add(all_, Of("a", "g", 2), kNow);
  groups_.Add(all_, Of("b", "h", 2), kNow);
  EXPECT_THAT(groups_.TakeAll(), ElementsAre(std::make_pair(0u, "a"), std::make_pair(0u, "b")));
  EXPECT_TRUE(groups_.Empty(0));
  groups_.Add(all_, Of("a", "g", 2), kNow);
  groups_.Drop([](uint32_t set) { return set == 0; });
  EXPECT_TRUE(groups_.Empty(0));
}

}  // namespace
}  // namespace farandole::controller::ready
