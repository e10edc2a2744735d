#include "controller/recovery/recovery.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::controller::recovery {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Stage = replay::ReplayState::Stage;

const GenerationId kGeneration{3, 7};

Request Of(const std::string& name) {
  Request request{name, {}};
  request.signature.op = OpKind::kAllreduce;
  return request;
}

// Two members; item 4 is Replay of [a], 5 is Resume with (4,1) begun by rank 0.
class RecoveryTest : public ::testing::Test {
 protected:
  RecoveryTest() {
    found_.view.generation = kGeneration;
    for (int r = 0; r < 2; ++r) {
      Member member;
      member.rank = Rank(r);
      member.host = "h";
      found_.view.members.push_back(member);
      Registered registered;
      registered.present = registered.session_open = true;
      registered.hello.generation = kGeneration;
      found_.members.push_back(registered);
    }
  }
  Hello& hello(int rank) { return found_.members[rank].hello; }
  void Put(uint64_t index, uint32_t phase, ItemBody body) {
    found_.items[index] = {kGeneration, phase, index, std::move(body)};
  }
  void PutReplay() { Put(4, 0, Replay{{{{0, {Of("a")}}}}}); }
  void PutResume() { Put(5, 1, Resume{4, {{1, {Rank(0)}}}}); }
  void Stand(int rank, uint32_t phase, WorkerState state, uint64_t received) {
    hello(rank).phase = phase;
    hello(rank).state = state;
    hello(rank).received_through = received;
    if (state != WorkerState::kNegotiate) hello(rank).replay_index = 4;
  }
  static std::vector<uint64_t> Lacks(const Recovery& recovery, int rank, uint64_t received) {
    std::vector<uint64_t> indices;
    const log::ItemLog log = recovery.MakeLog(4096);
    EXPECT_TRUE(log.ForEachAbove(Rank(rank), received, [&](const Item& item) { indices.push_back(item.index); }));
    return indices;
  }

  Recovered found_;
};

TEST_F(RecoveryTest, TheLogIsTheUnionOfWhatIsRetained) {
  Put(1, 0, Batch{0, {{"x", {}, 3, {}}}});
  Put(2, 0, LeaveDone{});
  Put(3, 0, ErrorItem{0, {"b", "e"}, ErrorKind::kLeft, "left"});
  Put(6, 0, BarrierDone{0, "b"});
  Stand(0, 0, WorkerState::kNegotiate, 7);
  Stand(1, 0, WorkerState::kNegotiate, 0);
  hello(1).open_requests = {Of("x"), Of("b")};  // not e: item 3 was not for it
  const Recovery recovery(found_);
  EXPECT_EQ(recovery.fault(), "");
  EXPECT_THAT(Lacks(recovery, 1, 0), ElementsAre(1, 6));
  EXPECT_THAT(Lacks(recovery, 0, 7), ElementsAre());
  log::ItemLog log = recovery.MakeLog(4096);
  EXPECT_EQ(log.last(), 7u);
  EXPECT_EQ(log.Append(0, JoinDone{}, nullptr).index, 8u);
  log.ForEachAbove(Rank(1), 0, [](const Item& item) {
    const Batch* batch = std::get_if<Batch>(&item.body);
    EXPECT_TRUE(batch == nullptr || batch->entries[0].slot == 0);
  });
}

TEST_F(RecoveryTest, ARequestIsAnsweredByTheFirstItemThatCan) {
  Put(1, 0, Batch{0, {{"x", {}, 0, {}}}});
  Put(2, 0, ErrorItem{0, {"x"}, ErrorKind::kLeft, "to another one"});
  Put(3, 0, ErrorItem{0, {"b", "e"}, ErrorKind::kLeft, "to another one"});
  Put(4, 0, ErrorItem{0, {"e"}, ErrorKind::kLeft, "to a third"});
  Put(5, 0, ErrorItem{0, {"f"}, ErrorKind::kLeft, "left"});
  Stand(0, 0, WorkerState::kNegotiate, 5);
  Stand(1, 0, WorkerState::kNegotiate, 0);
  hello(1).open_requests = {Of("x"), Of("b"), Of("e"), Of("f")};
  EXPECT_THAT(Lacks(Recovery(found_), 1, 0), ElementsAre(1, 3, 5));
  hello(1).received_through = 1;  // and x is another one
  EXPECT_THAT(Lacks(Recovery(found_), 1, 1), ElementsAre(2, 3, 5));
}

// Name by name and request by request it would take minutes.
TEST_F(RecoveryTest, ManyOpenRequestsAreLookedUp) {
  constexpr int kNames = 65536;
  ErrorItem error{0, {}, ErrorKind::kLeft, "left"};
  std::vector<Request> open;
  for (int i = 0; i < kNames; ++i) {
    error.names.push_back(std::to_string(i));
    open.push_back(Of(std::to_string(kNames - 1 - i)));
  }
  Put(1, 0, error);
  for (int rank = 0; rank < 2; ++rank) {
    Stand(rank, 0, WorkerState::kNegotiate, rank);
    hello(rank).open_requests = open;
  }
  for (uint64_t index = 2; index < 12; ++index) Put(index, 0, error);
  hello(1).open_requests.pop_back();
  const Recovery recovery(found_);
  EXPECT_EQ(recovery.fault(), "");
  EXPECT_THAT(Lacks(recovery, 0, 0), ElementsAre(1));
  EXPECT_THAT(Lacks(recovery, 1, 1), ElementsAre());
}

TEST_F(RecoveryTest, AReplayGoesOnUnlessSomebodyHasHaltedOrWantsABreak) {
  PutReplay();
  Stand(0, 1, WorkerState::kReplay, 4);
  Stand(1, 0, WorkerState::kNegotiate, 3);
  EXPECT_EQ(Recovery(found_).stage(), Stage::kReplay);
  EXPECT_EQ(Recovery(found_).phase(), 1u);
  EXPECT_EQ(Recovery(found_).replay_index(), 4u);
  EXPECT_EQ(Recovery(found_).period().batches.size(), 1u);
  EXPECT_THAT(Lacks(Recovery(found_), 1, 3), ElementsAre(4));
  hello(0).wants_break = true;
  EXPECT_EQ(Recovery(found_).stage(), Stage::kHalting);
  hello(0).wants_break = false;
  hello(0).state = WorkerState::kHalted;
  EXPECT_EQ(Recovery(found_).stage(), Stage::kHalting);
  found_.items.clear();
  EXPECT_THAT(Recovery(found_).fault(), HasSubstr("Replay item 4"));
}

TEST_F(RecoveryTest, NobodyLeavesInAReplay) {
  PutReplay();
  Stand(0, 1, WorkerState::kHalted, 4);
  Stand(1, 2, WorkerState::kNegotiate, 5);
  PutResume();
  EXPECT_EQ(Recovery(found_).fault(), "");
  found_.members[1].left = true;
  EXPECT_THAT(Recovery(found_).fault(), HasSubstr("rank 1 (pid 0 on host h) has left after a replay"));
}

TEST_F(RecoveryTest, WhatHasAMemberThatHasLeftIsClosed) {
  PutReplay();
  Put(5, 1, Resume{4, {{1, {Rank(0)}}}});
  Stand(0, 2, WorkerState::kNegotiate, 5);
  hello(0).begun = {1};
  found_.members[1].present = false;
  EXPECT_THAT(Recovery(found_).begun(), SizeIs(1));
  found_.members[1].left = true;
  EXPECT_THAT(Recovery(found_).begun(), IsEmpty());
}

TEST_F(RecoveryTest, MembersBelieveInOneReplay) {
  PutReplay();
  Stand(0, 1, WorkerState::kReplay, 4);
  Stand(1, 1, WorkerState::kReplay, 4);
  hello(1).replay_digest = 5;
  EXPECT_THAT(Recovery(found_).fault(), HasSubstr("different replays"));
}

TEST_F(RecoveryTest, WhatResumeListsIsOpen) {
  PutReplay();
  PutResume();
  Stand(0, 2, WorkerState::kNegotiate, 5);
  Stand(1, 1, WorkerState::kHalted, 4);
  hello(0).begun = {1};
  const Recovery recovery(found_);
  EXPECT_EQ(recovery.stage(), Stage::kNegotiate);
  ASSERT_EQ(recovery.begun().size(), 1u);
  EXPECT_EQ(recovery.begun()[0].seq, 1u);
  EXPECT_EQ(recovery.replay_index(), 4u);
  EXPECT_THAT(Lacks(recovery, 1, 4), ElementsAre(5));
}

TEST_F(RecoveryTest, EnterWithdrawOrAMemberThatDoesNotListItCloseIt) {
  PutReplay();
  PutResume();
  Stand(0, 2, WorkerState::kNegotiate, 5);
  Stand(1, 2, WorkerState::kNegotiate, 6);
  hello(0).begun = {1};
  hello(1).begun = {1};
  EXPECT_EQ(Recovery(found_).begun().size(), 1u);
  Put(6, 2, Enter{4, 1, 0, {Of("a")}, {Rank(0)}});
  EXPECT_TRUE(Recovery(found_).begun().empty());
  Put(6, 2, Withdraw{4, 0, {1}, "why"});
  EXPECT_TRUE(Recovery(found_).begun().empty());
  found_.items.erase(6);
  hello(1).begun.clear();
  EXPECT_TRUE(Recovery(found_).begun().empty());
}

TEST_F(RecoveryTest, BegunWithoutItsResumeIsAFault) {
  Stand(0, 2, WorkerState::kNegotiate, 5);
  Stand(1, 2, WorkerState::kNegotiate, 5);
  hello(0).begun = {1};
  EXPECT_THAT(Recovery(found_).fault(), HasSubstr("Resume"));
}

TEST_F(RecoveryTest, ProcessSetsAreThoseAtTheEndOfTheLog) {
  found_.process_sets = {{1, {Rank(0)}}, {2, {Rank(1)}}};
  found_.sets_through = 5;
  Put(5, 0, SetChanged{"r", {2, {Rank(1)}}, true, false});  // known by then, and added again since
  Put(6, 0, SetChanged{"s", {1, {Rank(0)}}, true, false});
  Put(7, 0, SetChanged{"t", {3, {Rank(0), Rank(1)}}, false, false});
  Stand(0, 0, WorkerState::kNegotiate, 5);
  Stand(1, 0, WorkerState::kNegotiate, 7);
  const auto sets = Recovery(found_).process_sets();
  ASSERT_EQ(sets.size(), 2u);
  EXPECT_EQ(sets[0].id, 2u);
  EXPECT_EQ(sets[1].id, 3u);
  EXPECT_THAT(Recovery(found_).removals(), ElementsAre(std::make_pair(1u, uint64_t{6})));
}

TEST_F(RecoveryTest, ARankThatIsNoMemberIsAFault) {
  for (const std::vector<Rank>& ranks :
       {std::vector<Rank>{Rank(-1)}, {Rank(0), Rank(2)}, {Rank(65535)}, {}, {Rank(1), Rank(0)}, {Rank(0), Rank(0)}}) {
    found_.items.clear();
    found_.process_sets = {{1, ranks}};
    Put(1, 0, BarrierDone{1, "b"});  // of the process set: goes to those who lack it
    Stand(0, 0, WorkerState::kNegotiate, 1);
    EXPECT_THAT(Recovery(found_).fault(), HasSubstr("process set 1 has ranks that 2 members do not have"));
    found_.process_sets.clear();
    Put(2, 0, SetChanged{"s", {1, ranks}, false, false});
    EXPECT_THAT(Recovery(found_).fault(), HasSubstr("process set 1 has ranks that 2 members do not have"));
  }
}

TEST_F(RecoveryTest, WhatNobodyCanHaveBegunIsAFault) {
  Stand(0, 2, WorkerState::kNegotiate, 5);
  Stand(1, 2, WorkerState::kNegotiate, 5);
  PutReplay();
  Put(5, 1, Resume{4, {{1, {Rank(0), Rank(70000)}}}});
  EXPECT_THAT(Recovery(found_).fault(), HasSubstr("item 5 lists batches that nobody can have begun"));
  Put(5, 1, Resume{4, {{1, {Rank(0)}}, {1, {Rank(0)}}}});
  EXPECT_THAT(Recovery(found_).fault(), HasSubstr("item 5 lists batches that nobody can have begun"));
  std::vector<Begun> many;
  for (uint64_t seq = 0; seq <= replay::ReplayState::kBegunPerSetMax; ++seq) many.push_back({seq, {Rank(0)}});
  Put(5, 1, Resume{4, many});
  EXPECT_THAT(Recovery(found_).fault(), HasSubstr("item 5 lists more begun batches than can be"));
}

TEST_F(RecoveryTest, AReplayOfAProcessSetThatIsNotThereIsAFault) {
  Put(4, 0, Replay{{{{9, {Of("a")}}}}});
  Stand(0, 1, WorkerState::kHalted, 4);
  Stand(1, 1, WorkerState::kHalted, 4);
  EXPECT_THAT(Recovery(found_).fault(), HasSubstr("process set 9"));
  EXPECT_EQ(Recovery(found_).stage(), Stage::kHalting);
}

TEST_F(RecoveryTest, PositionsThatCannotBeCountedOnFromAreAFault) {
  Stand(0, 0, WorkerState::kNegotiate, ~uint64_t{0});
  EXPECT_THAT(Recovery(found_).fault(), HasSubstr("received item 18446744073709551615"));
  Stand(0, 4294967295, WorkerState::kNegotiate, 0);
  EXPECT_THAT(Recovery(found_).fault(), HasSubstr("phase 4294967295"));
  Stand(0, 0, WorkerState::kNegotiate, 0);
  Put(0, 0, JoinDone{});
  EXPECT_THAT(Recovery(found_).fault(), HasSubstr("retains item 0"));
  found_.items.clear();
  found_.view.members.clear();
  found_.members.clear();
  EXPECT_THAT(Recovery(found_).fault(), HasSubstr("no members"));
}

TEST_F(RecoveryTest, WhoHasNotHeardOfAWithdrawOwesWhatItHasBegun) {
  Put(4, 0, Replay{{{{0, {Of("a")}}, {0, {Of("b"), Of("c")}}}}});
  Put(5, 1, Resume{4, {{1, {Rank(0)}}, {2, {Rank(0), Rank(1)}}}});
  Put(6, 2, Withdraw{4, 0, {1}, "late"});
  Stand(0, 2, WorkerState::kNegotiate, 5);
  Stand(1, 2, WorkerState::kNegotiate, 6);
  const std::vector<Recovery::Owed> owed = Recovery(found_).owed();
  ASSERT_EQ(owed.size(), 1u);
  EXPECT_EQ(owed[0].process_set, 0u);
  EXPECT_THAT(owed[0].names, ElementsAre("b", "c"));
  EXPECT_THAT(owed[0].ranks.ToVector(), ElementsAre(Rank(0)));
  hello(0).received_through = 6;
  EXPECT_THAT(Recovery(found_).owed(), IsEmpty()) << "it says itself what it is taking back";
  hello(0).received_through = 5;
  found_.members[0].left = true;
  EXPECT_THAT(Recovery(found_).owed(), IsEmpty());
  found_.members[0].left = false;
  Put(6, 2, Withdraw{3, 0, {1}, "of another replay"});
  EXPECT_THAT(Recovery(found_).owed(), IsEmpty());
}

TEST_F(RecoveryTest, ADeadMemberIsWhyItFails) {
  found_.members[1].dead = "was killed by signal 9";
  EXPECT_THAT(Recovery(found_).fault(), HasSubstr("rank 1"));
}

}  // namespace
}  // namespace farandole::controller::recovery
