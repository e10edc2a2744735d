#include "controller/replay/begun_list.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::controller::replay {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsNull;
using Heard = BegunList::Heard;

Request Of(const std::string& name, uint32_t set = 0, OpKind op = OpKind::kAllreduce) {
  Request request{name, {}};
  request.signature.op = op;
  request.signature.process_set = set;
  return request;
}

Request OnAccelerator(const std::string& name, uint32_t set = 0) {
  Request request = Of(name, set);
  request.signature.device = DeviceKind::kAccelerator;
  return request;
}

RankSet Ranks(const std::vector<int>& ranks) {
  RankSet set;
  for (int r : ranks) set.Add(Rank(r));
  return set;
}

// Set 0 = {0, 1, 2}, set 1 = {0, 1}, set 2 = {1, 2}.
class BegunListTest : public ::testing::Test {
 protected:
  void Open(const std::vector<PeriodBatch>& batches, const std::vector<Begun>& begun) {
    list_.Open(4, {batches}, begun, [this](uint32_t set) { return &members_[set]; });
  }
  std::vector<RankSet> members_ = {Ranks({0, 1, 2}), Ranks({0, 1}), Ranks({1, 2})};
  BegunList list_;
};

TEST_F(BegunListTest, EntersWhenAllOthersHaveAnnouncedAllOfIt) {
  Open({{0, {Of("a"), Of("b")}}}, {{7, {Rank(1)}}});
  EXPECT_TRUE(list_.Busy(nullptr));
  EXPECT_TRUE(list_.Busy(&members_[2]));
  EXPECT_FALSE(list_.Busy(&(members_[1] = Ranks({0, 2}))));
  EXPECT_EQ(list_.Announce(Rank(0), Of("b")), Heard::kTaken);
  EXPECT_EQ(list_.Announce(Rank(0), Of("b")), Heard::kTaken);
  EXPECT_EQ(list_.Announce(Rank(0), Of("x")), Heard::kOther);
  EXPECT_EQ(list_.Announce(Rank(0), Of("a", 1)), Heard::kOther);
  EXPECT_EQ(list_.Announce(Rank(2), Of("a")), Heard::kTaken);
  EXPECT_EQ(list_.Announce(Rank(2), Of("b")), Heard::kTaken);
  EXPECT_FALSE(list_.TakeEnter());
  EXPECT_EQ(list_.Announce(Rank(0), Of("a")), Heard::kTaken);
  const auto entering = list_.TakeEnter();
  ASSERT_TRUE(entering);
  EXPECT_EQ(entering->item.replay_index, 4u);
  EXPECT_EQ(entering->item.seq, 7u);
  EXPECT_EQ(entering->item.requests.size(), 2u);
  EXPECT_THAT(entering->item.had_begun, ElementsAre(Rank(1)));
  EXPECT_EQ(entering->members.count(), 3);
  EXPECT_TRUE(list_.empty());
  EXPECT_FALSE(list_.Busy(nullptr));
}

TEST_F(BegunListTest, ASessionThatOpensAgainSaysEverythingAgain) {
  Open({{0, {Of("a"), Of("b")}}}, {{0, {Rank(1), Rank(2)}}});
  list_.Announce(Rank(0), Of("a"));
  list_.Announce(Rank(0), Of("b"));
  list_.Forget(Rank(0));
  EXPECT_FALSE(list_.TakeEnter());
  list_.Announce(Rank(0), Of("a"));
  EXPECT_FALSE(list_.TakeEnter());
  list_.Announce(Rank(0), Of("b"));
  EXPECT_TRUE(list_.TakeEnter());
}

TEST_F(BegunListTest, WhoseJoinHasEndedHasToComeItself) {
  Open({{0, {Of("a")}}}, {{5, {Rank(0)}}});
  EXPECT_THAT(list_.Joined(Rank(1)), IsEmpty());
  list_.NotJoined(Rank(1));
  list_.Announce(Rank(2), Of("a"));
  EXPECT_FALSE(list_.TakeEnter());
  list_.Announce(Rank(1), Of("a"));
  list_.NotJoined(Rank(1));
  EXPECT_TRUE(list_.TakeEnter()) << "what it has announced counts, and what it has started";
}

TEST_F(BegunListTest, InThePeriodsOrder) {
  Open({{1, {Of("a", 1)}}, {1, {Of("b", 1)}}}, {{2, {Rank(0)}}, {3, {Rank(0)}}});
  EXPECT_EQ(list_.Announce(Rank(1), Of("b", 1)), Heard::kTaken);
  EXPECT_FALSE(list_.TakeEnter());
  EXPECT_EQ(list_.Announce(Rank(1), Of("a", 1)), Heard::kTaken);
  EXPECT_EQ(list_.TakeEnter()->item.seq, 2u);
  EXPECT_EQ(list_.TakeEnter()->item.seq, 3u);
}

// Rank 1 is inside b of set 2, so that it cannot come to a of set 1, which stands before it in the period... unless it
// has begun that as well.
TEST_F(BegunListTest, AMemberHasToRunAnotherOneFirst) {
  Open({{2, {Of("b", 2)}}, {1, {Of("a", 1)}}}, {{0, {Rank(1)}}, {1, {Rank(0)}}});
  EXPECT_EQ(list_.Announce(Rank(1), Of("a", 1)), Heard::kTaken);
  EXPECT_FALSE(list_.TakeEnter());
  EXPECT_EQ(list_.Announce(Rank(2), Of("b", 2)), Heard::kTaken);
  EXPECT_EQ(list_.TakeEnter()->item.seq, 0u);
  EXPECT_EQ(list_.TakeEnter()->item.seq, 1u);
}

TEST_F(BegunListTest, WithdrawsAllOfASetAndGivesBackWhatWasAnnounced) {
  Open({{1, {Of("a", 1)}}, {1, {Of("b", 1)}}, {2, {Of("c", 2)}}}, {{0, {Rank(0)}}, {1, {Rank(0)}}, {2, {Rank(1)}}});
  list_.Announce(Rank(1), Of("b", 1));
  EXPECT_EQ(list_.Announce(Rank(1), Of("a", 1, OpKind::kReducescatter)), Heard::kChanged);
  const auto withdrawing = list_.TakeWithdraw(1, "why");
  EXPECT_THAT(withdrawing.item.seqs, ElementsAre(0, 1));
  EXPECT_EQ(withdrawing.item.process_set, 1u);
  EXPECT_EQ(withdrawing.members, members_[1]);
  ASSERT_EQ(withdrawing.announced.size(), 1u);
  EXPECT_EQ(withdrawing.announced[0].second.name, "b");
  EXPECT_EQ(list_.Find(0), nullptr);
  EXPECT_EQ(list_.Find(2)->process_set, 2u);
  EXPECT_FALSE(list_.Busy(&(members_[1] = Ranks({0}))));
}

TEST_F(BegunListTest, WhoHasJoinedAddsZerosWhereThereAreSome) {
  Open({{0, {Of("a")}}, {1, {Of("m", 1, OpKind::kReducescatter)}}}, {{0, {Rank(1), Rank(2)}}, {1, {Rank(1)}}});
  EXPECT_THAT(list_.Joined(Rank(2)), IsEmpty());
  EXPECT_THAT(list_.Joined(Rank(0)), ElementsAre(1));
  EXPECT_EQ(list_.TakeEnter()->item.seq, 0u);
}

TEST_F(BegunListTest, WhoLeavesIsMissedWhereItHasNotStarted) {
  Open({{0, {Of("a")}}, {1, {Of("b", 1)}}}, {{0, {Rank(0)}}, {1, {Rank(1)}}});
  EXPECT_THAT(list_.LackedBy(Rank(0)), ElementsAre(1));
  EXPECT_THAT(list_.LackedBy(Rank(1)), ElementsAre(0));
  EXPECT_THAT(list_.LackedBy(Rank(2)), ElementsAre(0));
}

TEST_F(BegunListTest, WhatIsBeforeAFinalOneIsKeptAndWhatIsBehindItIsWithdrawn) {
  Open({{1, {Of("a", 1)}}, {1, {OnAccelerator("b", 1)}}, {1, {Of("c", 1)}}},
       {{0, {Rank(0)}}, {1, {Rank(0)}}, {2, {Rank(0)}}});
  const auto kept = list_.KeptFor();
  EXPECT_THAT(kept, ElementsAre(list_.Find(1), list_.Find(1), IsNull()));
  EXPECT_THAT(list_.TakeWithdraw(1, "why").item.seqs, ElementsAre(2));
  EXPECT_THAT(list_.TakeWithdraw(1, "why").item.seqs, IsEmpty());
  EXPECT_EQ(list_.Announce(Rank(1), OnAccelerator("b", 1)), Heard::kTaken);
  EXPECT_EQ(list_.Announce(Rank(1), Of("a", 1)), Heard::kTaken);
  EXPECT_EQ(list_.TakeEnter()->item.seq, 0u);
  EXPECT_EQ(list_.TakeEnter()->item.seq, 1u);
}

// Rank 1 is inside all three: a of set 1 would come after b of set 2, and that after c, which cannot be withdrawn.
TEST_F(BegunListTest, WhatIsKeptKeepsWhatAMemberHasBegunBeforeIt) {
  members_.push_back(Ranks({2, 3}));
  Open({{1, {Of("a", 1)}}, {2, {Of("b", 2)}}, {3, {OnAccelerator("c", 3)}}, {1, {Of("d", 1)}}},
       {{0, {Rank(1)}}, {1, {Rank(1), Rank(2)}}, {2, {Rank(2)}}, {3, {Rank(1)}}});
  EXPECT_THAT(list_.KeptFor(), ElementsAre(list_.Find(2), list_.Find(2), list_.Find(2), IsNull()));
}

TEST_F(BegunListTest, AFinalOneOfMembersThatHaveNoPartInItKeepsNothing) {
  members_.push_back(Ranks({2, 3}));
  Open({{1, {Of("a", 1)}}, {3, {OnAccelerator("c", 3)}}}, {{0, {Rank(1)}}, {1, {Rank(2)}}});
  EXPECT_THAT(list_.KeptFor(), ElementsAre(IsNull(), list_.Find(1)));
}

}  // namespace
}  // namespace farandole::controller::replay
