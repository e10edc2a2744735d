#include "controller/job/sequencer.h"

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "controller/waits/report_table.h"
#include "gtest/gtest.h"

namespace farandole::controller::job {
namespace {

constexpr TimePoint kNow(1000);
const GenerationId kGeneration{1, 7};

// Two members; longer stories are told in tests/transcripts.
class SequencerTest : public ::testing::Test {
 protected:
  SequencerTest() {
    for (int r = 0; r < 2; ++r) roster_.OpenSession(Rank(r), 1, "a");
  }
  static std::vector<Member> Members() {
    std::vector<Member> members(2);
    for (int r = 0; r < 2; ++r) {
      members[r].rank = Rank(r);
      members[r].host = "h";
      members[r].agent_id = "a";
      members[r].worker_incarnation = Incarnation(5 + r);
    }
    return members;
  }
  static Request Reduce(const std::string& name) { return {name, {OpKind::kAllreduce, DataType::kFloat32, {4}}}; }
  absl::Status Announce(int rank, std::vector<Request> requests) {
    return sequencer_.OnAnnounce({{Rank(rank), 0}}, std::move(requests), {}, kNow, &actions_);
  }
  std::vector<Item> Sent() {
    actions_ = Actions();
    EXPECT_TRUE(sequencer_.Send(kNow, &actions_).ok());
    std::vector<Item> items;
    for (const Send& send : actions_.sends) {
      const auto* item = std::get_if<Item>(&std::get<WorkerDown>(send.message));
      if (item != nullptr) items.push_back(*item);
    }
    return items;
  }

  const JobConfig config_;
  members::Roster roster_{Members()};
  int announced_ = 0;
  std::vector<std::pair<uint32_t, uint64_t>> removed_;
  Sequencer sequencer_{config_,
                       log::ItemLog(kGeneration, 2, 4096),
                       &roster_,
                       {[this](Rank, TimePoint, bool, TimePoint) { ++announced_; },
                        [this](uint32_t set, uint64_t item) { removed_.emplace_back(set, item); }}};
  Actions actions_;
};

TEST_F(SequencerTest, WhatAllHaveAnnouncedBecomesABatch) {
  EXPECT_TRUE(Announce(0, {Reduce("x")}).ok());
  EXPECT_TRUE(Sent().empty());
  EXPECT_EQ(sequencer_.OpenCount(Rank(0)), 1u);
  EXPECT_TRUE(Announce(1, {Reduce("x")}).ok());
  const std::vector<Item> items = Sent();
  ASSERT_EQ(items.size(), 1u);
  EXPECT_EQ(std::get<Batch>(items[0].body).entries[0].name, "x");
  EXPECT_EQ(sequencer_.tensors(), 1u);
  EXPECT_EQ(sequencer_.log().last(), 1u);
  EXPECT_EQ(announced_, 2);
}

TEST_F(SequencerTest, ProgressThatCannotBeIsAnError) {
  EXPECT_FALSE(sequencer_.OnProgress(Rank(0), 1, 0).ok()) << "there is no item 1";
  EXPECT_FALSE(sequencer_.OnProgress(Rank(0), 0, 1).ok()) << "completed what it has not received";
  EXPECT_TRUE(sequencer_.OnProgress(Rank(0), 0, 0).ok());
}

TEST_F(SequencerTest, OpenRequestsAreBounded) {
  const absl::Status many = Announce(1, std::vector<Request>(65537, Reduce("x")));
  EXPECT_TRUE(absl::IsResourceExhausted(many));
  EXPECT_NE(many.message().find("rank 1"), std::string::npos) << many;
}

TEST_F(SequencerTest, ASessionThatIsAheadOfThePhaseIsAnError) {
  Hello hello;
  hello.generation = kGeneration;
  hello.phase = 1;
  const absl::Status ahead = sequencer_.OnHello(Rank(0), hello, kNow, &actions_);
  EXPECT_NE(ahead.message().find("is in phase 1 of 0; this is a bug in Farandole; please report it"), std::string::npos)
      << ahead;
}

TEST_F(SequencerTest, ANewSessionGetsWhatItLacksAndAnnouncesAfresh) {
  EXPECT_TRUE(Announce(0, {Reduce("x"), Reduce("y")}).ok());
  EXPECT_TRUE(Announce(1, {Reduce("x")}).ok());
  ASSERT_EQ(Sent().size(), 1u);
  Hello hello;
  hello.generation = kGeneration;
  hello.open_requests = {Reduce("x")};
  actions_ = Actions();
  EXPECT_TRUE(sequencer_.OnHello(Rank(0), hello, kNow, &actions_).ok());
  ASSERT_EQ(actions_.sends.size(), 1u) << "the batch, once more";
  EXPECT_EQ(sequencer_.OpenCount(Rank(0)), 0u) << "y is not open any more, and x has its answer";
}

TEST_F(SequencerTest, ALeaverGoesWhenItHasDoneItsPart) {
  for (int r : {0, 1}) EXPECT_TRUE(Announce(r, {Reduce("x")}).ok());
  ASSERT_EQ(Sent().size(), 1u);
  EXPECT_FALSE(sequencer_.LetGo(Rank(0))) << "has not left";
  EXPECT_TRUE(sequencer_.OnLeave(Rank(0), kNow, &actions_).ok());
  EXPECT_FALSE(sequencer_.LetGo(Rank(0))) << "the other one needs its part of the batch";
  EXPECT_TRUE(sequencer_.OnProgress(Rank(0), 1, 1).ok());
  EXPECT_TRUE(sequencer_.LetGo(Rank(0)));
  EXPECT_FALSE(sequencer_.LetGo(Rank(0))) << "once";
  const std::vector<Item> items = Sent();
  ASSERT_EQ(items.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<LeaveDone>(items[0].body));
  EXPECT_TRUE(Announce(1, {Reduce("x")}).ok());
  EXPECT_TRUE(std::holds_alternative<ErrorItem>(Sent().at(0).body)) << "who left does not come";
}

TEST_F(SequencerTest, ItSaysWhichProcessSetsItemsRemove) {
  const auto change = [](OpKind op, int64_t number) { return Request{"c", {op, DataType::kInt64, {number}}}; };
  for (int r : {0, 1}) EXPECT_TRUE(Announce(r, {change(OpKind::kAddProcessSet, 0)}).ok());
  EXPECT_EQ(Sent().size(), 1u);
  for (int r : {0, 1}) EXPECT_TRUE(Announce(r, {change(OpKind::kRemoveProcessSet, 1)}).ok());
  EXPECT_EQ(Sent().size(), 1u);
  EXPECT_EQ(removed_, (std::vector<std::pair<uint32_t, uint64_t>>{{1, 2}}));
}

// Both have announced x, which is issued; rank 0 has been in it for a while.
class SequencerInACollectiveTest : public SequencerTest {
 protected:
  SequencerInACollectiveTest() {
    for (int r : {0, 1}) EXPECT_TRUE(Announce(r, {Reduce("x")}).ok());
    EXPECT_EQ(Sent().size(), 1u);
    EXPECT_TRUE(sequencer_.OnProgress(Rank(0), 1, 0).ok());
    Report(0);
  }
  static RankSet Only(int rank) {
    RankSet set;
    set.Add(Rank(rank));
    return set;
  }
  void Report(int rank) {
    WorkerReport report;
    report.in_flight = "x";
    report.in_flight_ms = 4000;
    reports_.Store(Rank(rank), report, kNow);
  }
  std::vector<OpenWait> Waits() const { return sequencer_.Waits(reports_, kNow); }

  waits::ReportTable reports_{2};
};

TEST_F(SequencerInACollectiveTest, WhoHasNotReceivedItIsMissing) {
  EXPECT_TRUE(Announce(0, {Reduce("y")}).ok());
  const std::vector<OpenWait> waits = Waits();
  ASSERT_EQ(waits.size(), 2u);
  EXPECT_EQ(waits[0].kind, WaitKind::kCollective);
  EXPECT_EQ(waits[0].name, "x");
  EXPECT_EQ(waits[0].ready, Only(0));
  EXPECT_EQ(waits[0].missing, Only(1));
  EXPECT_EQ(waits[0].detail, "rank 1 has not begun it");
  EXPECT_EQ(waits[1].name, "y");
}

TEST_F(SequencerInACollectiveTest, WhoDoesNotAnswerIsMissing) {
  EXPECT_TRUE(sequencer_.OnProgress(Rank(1), 1, 0).ok());
  EXPECT_TRUE(Waits().empty()) << "nobody is known to hold it up";
  members::Seat& seat = roster_.mutable_seat(Rank(1));
  seat.responsive = false;
  seat.unresponsive_cause = "is stopped by a signal";
  ASSERT_EQ(Waits().size(), 1u);
  EXPECT_EQ(Waits()[0].detail, "rank 1 is stopped by a signal");
  Report(1);
  ASSERT_EQ(Waits().size(), 1u) << "it said so before it was stopped";
  EXPECT_EQ(Waits()[0].ready, Only(0));
  EXPECT_EQ(Waits()[0].missing, Only(1));
  seat.over = true;
  EXPECT_TRUE(Waits().empty()) << "an end is told elsewhere";
}

TEST_F(SequencerInACollectiveTest, WhoLacksOnlyWhatCameLaterIsNotMissing) {
  EXPECT_TRUE(sequencer_.OnProgress(Rank(1), 1, 1).ok());
  for (int r : {0, 1}) EXPECT_TRUE(Announce(r, {Reduce("y")}).ok());
  EXPECT_EQ(Sent().size(), 1u);
  EXPECT_TRUE(Waits().empty());
}

TEST_F(SequencerTest, AfterClearNothingIsOpen) {
  EXPECT_TRUE(Announce(0, {Reduce("x")}).ok());
  sequencer_.Clear();
  EXPECT_EQ(sequencer_.OpenCount(Rank(0)), 0u);
}

}  // namespace
}  // namespace farandole::controller::job
