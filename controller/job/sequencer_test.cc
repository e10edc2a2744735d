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
  EXPECT_FALSE(sequencer_.LetGo(Rank(0), kNow)) << "has not left";
  EXPECT_TRUE(sequencer_.OnLeave(Rank(0), kNow, &actions_).ok());
  EXPECT_FALSE(sequencer_.LetGo(Rank(0), kNow)) << "the other one needs its part of the batch";
  EXPECT_TRUE(sequencer_.OnProgress(Rank(0), 1, 1).ok());
  EXPECT_TRUE(sequencer_.LetGo(Rank(0), kNow));
  EXPECT_FALSE(sequencer_.LetGo(Rank(0), kNow)) << "once";
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

TEST_F(SequencerTest, WhoIsInACollectiveWaitsBeforeWhatIsOpen) {
  for (int r : {0, 1}) EXPECT_TRUE(Announce(r, {Reduce("x")}).ok());
  EXPECT_EQ(Sent().size(), 1u);
  EXPECT_TRUE(sequencer_.OnProgress(Rank(0), 1, 0).ok());
  EXPECT_TRUE(Announce(0, {Reduce("y")}).ok());
  waits::ReportTable reports(2);
  WorkerReport report;
  report.in_flight = "x";
  report.in_flight_item = 1;
  report.in_flight_ms = 4000;
  reports.Store(Rank(0), report, kNow);
  const std::vector<OpenWait> waits = sequencer_.Waits(reports, kNow);
  ASSERT_EQ(waits.size(), 2u);
  EXPECT_EQ(waits[0].kind, WaitKind::kCollective);
  EXPECT_EQ(waits[0].name, "x");
  EXPECT_EQ(waits[0].detail, "rank 1 has not received it yet");
  EXPECT_EQ(waits[1].name, "y");
  EXPECT_TRUE(sequencer_.OnProgress(Rank(1), 1, 0).ok());
  report.in_flight_ms = 20000;
  reports.Store(Rank(0), report, kNow);
  ASSERT_EQ(sequencer_.Waits(reports, kNow).size(), 2u);
  EXPECT_EQ(sequencer_.Waits(reports, kNow)[1].detail, "all have received it") << "behind one for somebody";
}

TEST_F(SequencerTest, AfterClearNothingIsOpen) {
  EXPECT_TRUE(Announce(0, {Reduce("x")}).ok());
  sequencer_.Clear();
  EXPECT_EQ(sequencer_.OpenCount(Rank(0)), 0u);
}

}  // namespace
}  // namespace farandole::controller::job
