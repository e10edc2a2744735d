#include "controller/job/collective_waits.h"

#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::controller::job {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using InFlight = waits::ReportTable::InFlight;

constexpr TimePoint kNow(100000000000);

TimePoint Ago(int64_t ms) { return TimePoint(kNow.ns() - ms * 1000000); }

RankSet Set(const std::vector<int>& ranks) {
  RankSet set;
  for (int rank : ranks) set.Add(Rank(rank));
  return set;
}

// Four members, of which 0 and 1 are a set of their own, too.
class CollectiveWaitsTest : public ::testing::Test {
 protected:
  CollectiveWaitsTest() {
    for (int r = 0; r < 4; ++r) roster_.OpenSession(Rank(r), 1, r < 3 ? "a" : "b");
  }
  static std::vector<Member> Members() {
    std::vector<Member> members(4);
    for (int r = 0; r < 4; ++r) {
      members[r].rank = Rank(r);
      members[r].agent_id = r < 3 ? "a" : "b";
      members[r].worker_incarnation = Incarnation(5 + r);
    }
    return members;
  }
  uint64_t Issue(uint32_t process_set) {
    return log_.Append(0, JoinDone{}, process_set == 0 ? nullptr : &sets_.at(process_set)).index;
  }
  void In(int rank, uint64_t item, int64_t for_ms, uint32_t process_set = 0) {
    in_flight_.push_back({Rank(rank), item, process_set, "x", Ago(for_ms)});
  }
  void Silence(int rank, int64_t for_ms) {
    members::Seat& seat = roster_.mutable_seat(Rank(rank));
    seat.responsive = false;
    seat.unresponsive_cause = "is stopped by a signal";
    seat.silent_since = Ago(for_ms);
  }
  std::vector<OpenWait> Waits(bool replayed = false) const {
    const auto members_of = [this](uint32_t set) {
      const auto found = sets_.find(set);
      return found == sets_.end() ? nullptr : &found->second;
    };
    return CollectiveWaits(in_flight_, replayed, roster_, log_, members_of, kNow);
  }
  std::vector<std::string> Details(bool replayed = false) const {
    std::vector<std::string> details;
    for (const OpenWait& wait : Waits(replayed)) details.push_back(wait.detail);
    return details;
  }

  members::Roster roster_{Members()};
  log::ItemLog log_{{1, 7}, 4, 4096};
  std::map<uint32_t, RankSet> sets_ = {{0, Set({0, 1, 2, 3})}, {1, Set({0, 1})}};
  std::vector<InFlight> in_flight_;
};

TEST_F(CollectiveWaitsTest, WhoHasNotReceivedItHasBeenMissingFromTheBeginning) {
  const uint64_t item = Issue(0);
  for (int r : {0, 1}) EXPECT_TRUE(log_.Received(Rank(r), item));
  EXPECT_TRUE(log_.Received(Rank(3), item));
  In(0, item, 4000);
  In(1, item, 5000);
  const std::vector<OpenWait> waits = Waits();
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0].kind, WaitKind::kCollective);
  EXPECT_EQ(waits[0].ready, Set({0, 1}));
  EXPECT_EQ(waits[0].missing, Set({2})) << "rank 3 may be done with it";
  EXPECT_EQ(waits[0].detail, "rank 2 has not received it yet");
  EXPECT_EQ(kNow.MsSince(waits[0].since), 5000);
}

TEST_F(CollectiveWaitsTest, WhoDoesNotAnswerIsMissingSinceThen) {
  const uint64_t item = Issue(0);
  for (int r = 0; r < 4; ++r) EXPECT_TRUE(log_.Received(Rank(r), item));
  for (int r = 0; r < 3; ++r) In(r, item, 8000);
  EXPECT_THAT(Waits(), IsEmpty()) << "it takes its time";
  Silence(2, 1500);
  const std::vector<OpenWait> waits = Waits();
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0].ready, Set({0, 1})) << "rank 2 said so before it was stopped";
  EXPECT_EQ(waits[0].missing, Set({2}));
  EXPECT_EQ(waits[0].detail, "rank 2 is stopped by a signal");
  EXPECT_EQ(kNow.MsSince(waits[0].since), 1500);
  Silence(1, 3000);
  EXPECT_THAT(Details(), ElementsAre("ranks 1 and 2 do not answer"));
  EXPECT_EQ(kNow.MsSince(Waits()[0].since), 3000);
  roster_.mutable_seat(Rank(1)).over = true;
  roster_.mutable_seat(Rank(2)).completed_through = item;
  EXPECT_THAT(Waits(), IsEmpty()) << "one has ended, which is told elsewhere, and one had done its part";
}

TEST_F(CollectiveWaitsTest, WhoCannotBeReachedIsMissing) {
  const uint64_t item = Issue(0);
  EXPECT_TRUE(log_.Received(Rank(0), item));
  In(0, item, 8000);
  for (int r : {1, 2}) EXPECT_TRUE(log_.Received(Rank(r), item));
  roster_.CloseSessions("b", Ago(2500));
  EXPECT_THAT(Details(), ElementsAre("rank 3 is out of reach"));
  EXPECT_EQ(kNow.MsSince(Waits()[0].since), 2500);
}

TEST_F(CollectiveWaitsTest, WhatCameLaterMakesNobodyLate) {
  const uint64_t item = Issue(0);
  for (int r = 0; r < 4; ++r) EXPECT_TRUE(log_.Received(Rank(r), item));
  In(0, item, 4000);
  EXPECT_TRUE(log_.Received(Rank(0), Issue(0)));
  const uint64_t of_two = Issue(1);
  EXPECT_TRUE(log_.Received(Rank(0), of_two));
  EXPECT_TRUE(log_.Received(Rank(1), of_two));
  Issue(0);
  EXPECT_THAT(Waits(), IsEmpty());
  In(1, of_two, 3000, 1);
  EXPECT_THAT(Waits(), IsEmpty()) << "it concerns ranks 0 and 1 alone";
}

TEST_F(CollectiveWaitsTest, OneThatAllHaveReceivedAndThatLastsIsAWaitForNobody) {
  const uint64_t item = Issue(0);
  for (int r = 0; r < 4; ++r) EXPECT_TRUE(log_.Received(Rank(r), item));
  for (int r = 0; r < 4; ++r) In(r, item, 9999);
  EXPECT_THAT(Waits(), IsEmpty());
  In(0, item, 10000);
  EXPECT_THAT(Details(), ElementsAre("all have received it"));
  EXPECT_TRUE(Waits()[0].missing.empty());
}

TEST_F(CollectiveWaitsTest, WhatIsOverOrOfNoSuchSetIsNoWait) {
  const uint64_t item = Issue(0);
  In(0, item, 20000, 9);
  In(2, item, 20000, 1);
  EXPECT_THAT(Waits(), IsEmpty()) << "no such set, or not its own";
  In(0, item, 20000);
  EXPECT_EQ(Waits().size(), 1u);
  roster_.mutable_seat(Rank(0)).completed_through = item;
  EXPECT_THAT(Waits(), IsEmpty()) << "it has told so since";
}

TEST_F(CollectiveWaitsTest, InABatchOfAReplayOnlyWhoDoesNotAnswerIsKnown) {
  // Of one that has joined there is no name.
  in_flight_.push_back({Rank(0), 0, 0, "", Ago(4000)});
  for (int r : {1, 2}) in_flight_.push_back({Rank(r), 0, 0, "x", Ago(3000)});
  EXPECT_THAT(Waits(true), IsEmpty());
  Silence(3, 2000);
  EXPECT_THAT(Details(true), ElementsAre("rank 3 is stopped by a signal")) << "one, wherever they are in it";
  EXPECT_EQ(Waits(true)[0].name, "x");
  EXPECT_THAT(Waits(false), IsEmpty());
}

TEST_F(CollectiveWaitsTest, TheLongestOfManyAreKept) {
  Silence(3, 60000);
  for (int i = 1; i <= 100; ++i) In(0, Issue(0), 3000 + i);
  const std::vector<OpenWait> waits = Waits();
  ASSERT_EQ(waits.size(), 16u);
  EXPECT_EQ(waits[0].number, 100u);
}

}  // namespace
}  // namespace farandole::controller::job
