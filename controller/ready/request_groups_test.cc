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
  static RankSet Only(int rank) {
    RankSet ranks;
    ranks.Add(Rank(rank));
    return ranks;
  }

  std::vector<std::string> Fail(const std::string& name, RequestGroups::Part part) {
    return groups_.Fail(0, "g", present_, &part, name, {ErrorKind::kMismatch, "wrong"});
  }

  // Whose request of group g ends.
  std::vector<Rank> Late(const std::string& name, const std::vector<int>& who) {
    RankSet ranks;
    for (int rank : who) ranks.Add(Rank(rank));
    const auto why = groups_.Late(0, "g", name, &ranks);
    text_ = why ? why->text : "";
    return why ? ranks.ToVector() : std::vector<Rank>();
  }

  RequestGroups groups_;
  RankSet present_ = RankSet::All(2);
  std::string text_;
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
  EXPECT_THAT(Fail("b", {{Rank(0), 3}, {Rank(1), 3}}), ElementsAre("a"));
  EXPECT_TRUE(groups_.Empty(0));
  EXPECT_THAT(Late("c", {0}), ElementsAre(Rank(0)));
  EXPECT_EQ(text_, "wrong");
  EXPECT_TRUE(groups_.some_failed()) << "rank 1 has not submitted c";
  EXPECT_THAT(Late("c", {1}), ElementsAre(Rank(1)));
  EXPECT_FALSE(groups_.some_failed()) << "that round is over";
}

TEST_F(RequestGroupsTest, OnlyThoseWhoAreInTheGroupHearOfIt) {
  Fail("a", {{Rank(1), 2}});
  EXPECT_THAT(Late("b", {0, 1}), ElementsAre(Rank(1)));
  EXPECT_THAT(Late("b", {0, 1}), ElementsAre());
}

TEST_F(RequestGroupsTest, WhatEndedMeanwhileIsNotLate) {
  Fail("a", {{Rank(0), 3}, {Rank(1), 3}});
  groups_.Ended(0, "g", {"b", "c"}, Only(0));
  EXPECT_THAT(Late("b", {0, 1}), ElementsAre(Rank(1)));
}

TEST_F(RequestGroupsTest, TheNameOfAFailedGroupMayBeUsedAgain) {
  Fail("a", {{Rank(0), 3}, {Rank(1), 3}});
  EXPECT_THAT(Late("a", {0}), ElementsAre()) << "the script did not submit the others, but begins anew";
  EXPECT_THAT(Late("b", {0, 1}), ElementsAre(Rank(1)));
  EXPECT_EQ(groups_.Add(all_, Of("a", "g", 1), kNow).verdict, Verdict::kComplete);
}

TEST_F(RequestGroupsTest, WhatHadBecomeReadyFailsOnAll) {
  groups_.Add(all_, Of("r", "g", 2), kNow);
  EXPECT_THAT(Fail("p", {{Rank(1), 2}}), ElementsAre("r"));
  EXPECT_THAT(Late("s", {0, 1}), ElementsAre(Rank(0))) << "rank 1 has been told of both, p and r";
}

TEST_F(RequestGroupsTest, WhoHasJoinedHasPutNothingThere) {
  groups_.Add(all_, Of("r", "g", 2), kNow);
  present_ = Only(1);
  EXPECT_THAT(Fail("p", {{Rank(1), 3}}), ElementsAre("r"));
  EXPECT_THAT(Late("s", {0, 1}), ElementsAre(Rank(1))) << "rank 0 begins with s when it is back";
}

TEST_F(RequestGroupsTest, EachRankHasItsOwnIdeaOfTheSize) {
  Fail("x.0", {{Rank(0), 2}, {Rank(1), 3}});
  EXPECT_THAT(Late("x.1", {0, 1}), ElementsAre(Rank(0), Rank(1)));
  EXPECT_THAT(Late("x.2", {0, 1}), ElementsAre(Rank(1)));
  EXPECT_FALSE(groups_.some_failed());
}

TEST_F(RequestGroupsTest, OneGroupMayFailAgainForOthers) {
  Fail("a", {{Rank(0), 2}});
  Fail("b", {{Rank(1), 2}});
  EXPECT_THAT(Late("c", {0, 1}), ElementsAre(Rank(0)));
  EXPECT_THAT(Late("c", {1}), ElementsAre(Rank(1)));
}

TEST_F(RequestGroupsTest, WhatIsRememberedHasABound) {
  const std::string text(10000, 'x');
  int remembered = 0;
  for (int i = 0; i < 10000 && groups_.some_failed() == (i > 0); ++i, ++remembered) {
    RequestGroups::Part part{{Rank(0), UINT32_MAX}};
    groups_.Fail(0, std::to_string(i), RankSet::All(2), &part, "a", {ErrorKind::kLeft, text});
  }
  EXPECT_GT(remembered, 100);
  EXPECT_LT(remembered * text.size(), 2 * RequestGroups::kFailedBytesMax);
  Fail("a", {{Rank(0), UINT32_MAX}});
  int names = 0;
  for (; names < 10000000 && groups_.some_failed(); ++names) groups_.Ended(0, "g", {std::to_string(names)}, Only(0));
  EXPECT_LT(names * sizeof(uint64_t), RequestGroups::kFailedBytesMax);
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

TEST_F(RequestGroupsTest, WhatWaitsCanBeToldAndDropped) {
  groups_.Add(all_, Of("a", "g", 2), kNow);
  groups_.Add(all_, Of("b", "h", 3), kNow);
  groups_.Add(all_, Of("c", "h", 3), kNow);
  const auto waiting = groups_.AllWaiting();
  ASSERT_EQ(waiting.size(), 2u);
  EXPECT_EQ(waiting[1].set, &all_);
  EXPECT_EQ(waiting[1].name, "h");
  EXPECT_EQ(waiting[1].size, 3u);
  EXPECT_THAT(waiting[1].names, ElementsAre("b", "c"));
  groups_.Drop([](uint32_t set) { return set == 0; });
  EXPECT_TRUE(groups_.Empty(0));
  Fail("a", {{Rank(0), 2}, {Rank(1), 2}});
  groups_.Drop([](uint32_t set) { return set == 0; });
  EXPECT_FALSE(groups_.some_failed());
}

}  // namespace
}  // namespace farandole::controller::ready
