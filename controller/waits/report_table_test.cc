#include "controller/waits/report_table.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::controller::waits {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

const TimePoint kNow(1000000000000);
constexpr uint32_t kPhase = 1;

WorkerReport InReplay(uint64_t next, uint64_t in_flight_ms, std::vector<std::string> lacks = {}, uint32_t count = 0) {
  WorkerReport report;
  report.generation = {1, 7};
  report.phase = kPhase;
  report.state = WorkerState::kReplay;
  report.next = next;
  report.in_flight_ms = in_flight_ms;
  report.head_missing = std::move(lacks);
  report.head_missing_count = count;
  return report;
}

Period PeriodOf(int batches) {
  Period period;
  for (int i = 0; i < batches; ++i) {
    period.batches.push_back({0, {{"t" + std::to_string(i), {}}, {"u" + std::to_string(i), {}}}});
  }
  return period;
}

TEST(ReportTableTest, InAReplayTellsWhoIsWaitedForAndWhatItLacks) {
  ReportTable table(4);
  for (int r = 0; r < 3; ++r) table.Store(Rank(r), InReplay(28, 11000), kNow);
  table.Store(Rank(3), InReplay(27, 0, {"conv1.weight", "b", "c", "d"}, 5), kNow);
  const auto waits = table.ReplayWaits(kPhase, PeriodOf(10), kNow.PlusMs(1000));
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0].kind, WaitKind::kReplay);
  EXPECT_EQ(waits[0].name, "batch 7");
  EXPECT_THAT(waits[0].ready.ToVector(), ElementsAre(Rank(0), Rank(1), Rank(2)));
  EXPECT_THAT(waits[0].missing.ToVector(), ElementsAre(Rank(3)));
  EXPECT_EQ(kNow.PlusMs(1000).MsSince(waits[0].since), 12000);
  EXPECT_EQ(waits[0].detail, "rank 3 lacks `conv1.weight`, `b`, `c` and 2 more");
  EXPECT_EQ(table.Furthest(kPhase), 28u);
  EXPECT_EQ(table.PhaseAgeMs(kPhase, kNow.PlusMs(1000)), 1000u);
  EXPECT_EQ(table.PhaseAgeMs(kPhase + 1, kNow.PlusMs(1000)), 0u);
}

TEST(ReportTableTest, WhoStepsDoesNotWait) {
  ReportTable table(2);
  table.Store(Rank(0), InReplay(28, 3), kNow);
  table.Store(Rank(1), InReplay(20, 0), kNow);
  EXPECT_TRUE(table.ReplayWaits(kPhase, PeriodOf(10), kNow).empty());
  // Nor does one of whom nothing new is known, or of another phase.
  table.Store(Rank(0), InReplay(28, 3000), kNow);
  EXPECT_EQ(table.ReplayWaits(kPhase, PeriodOf(10), kNow).size(), 1u);
  EXPECT_TRUE(table.ReplayWaits(kPhase, PeriodOf(10), kNow.PlusMs(6000)).empty());
  EXPECT_TRUE(table.ReplayWaits(kPhase + 2, PeriodOf(10), kNow).empty());
}

TEST(ReportTableTest, OneThatSaysNothingLacksItsNextBatch) {
  ReportTable table(2);
  table.Store(Rank(0), InReplay(28, 3000), kNow);
  table.Store(Rank(1), InReplay(27, 0), kNow);
  EXPECT_EQ(table.ReplayWaits(kPhase, PeriodOf(10), kNow)[0].detail, "rank 1 lacks `t7` and `u7`");
  Period other = PeriodOf(10);
  other.batches[7].process_set = 1;
  EXPECT_EQ(table.ReplayWaits(kPhase, other, kNow)[0].detail, "rank 1 is not that far");
}

TEST(ReportTableTest, AnOldReportCountsAndNoneIsSaid) {
  ReportTable table(3);
  table.Store(Rank(0), InReplay(2, 4000), kNow.PlusMs(60000));
  table.Store(Rank(1), InReplay(1, 0), kNow);
  const auto waits = table.ReplayWaits(kPhase, PeriodOf(1), kNow.PlusMs(60000));
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0].detail, "rank 1 lacks `t0` and `u0`; rank 2 has not reported yet");
}

TEST(ReportTableTest, CountersAreSummedAndReplaced) {
  ReportTable table(2);
  WorkerReport report = InReplay(1, 0);
  report.bytes = 100;
  table.Store(Rank(0), report, kNow);
  table.Store(Rank(1), report, kNow);
  report.bytes = 150;
  table.Store(Rank(1), report, kNow.PlusMs(500));
  EXPECT_EQ(table.total().bytes, 250u);
  EXPECT_EQ(table.TrafficOf(Rank(1)).bytes, 150u);
  EXPECT_EQ(table.AgeMs(Rank(0), kNow.PlusMs(700)), 700u);
}

TEST(ReportTableTest, WhatARankHadDoneBeforeItsFirstReportIsNotGained) {
  ReportTable table(2);
  WorkerReport report;
  for (const uint64_t bytes : {1000000, 1000300}) {
    report.bytes = bytes;
    table.Store(Rank(0), report, kNow);
  }
  report.bytes = 2000000;
  table.Store(Rank(1), report, kNow);
  EXPECT_EQ(table.total().bytes, 3000300u);
  EXPECT_EQ(table.gained().bytes, 300u);
}

TEST(ReportTableTest, TimesOfGpusAreThoseOfTheLastReport) {
  ReportTable table(2);
  EXPECT_EQ(table.DeviceTimeOf(Rank(1)).batches, 0u) << "nobody has reported";
  WorkerReport report = InReplay(1, 0);
  table.Store(Rank(0), report, kNow);
  for (uint64_t n : {1, 2}) {
    report.device_time = {n, 10 * n, 20 * n, 30 * n, 40 * n};
    table.Store(Rank(1), report, kNow);
  }
  EXPECT_EQ(table.DeviceTimeOf(Rank(0)).batches, 0u) << "a rank on the host";
  const DeviceTime time = table.DeviceTimeOf(Rank(1));
  EXPECT_EQ(time.batches, 2u);
  EXPECT_EQ(time.waited_us, 20u);
  EXPECT_EQ(time.unpacked_us, 80u);
}

TEST(ReportTableTest, RankZeroSaysWhatCarriesTensors) {
  ReportTable table(2);
  WorkerReport report = InReplay(1, 0);
  report.communicates_by = "pigeons";
  table.Store(Rank(1), report, kNow);
  EXPECT_EQ(table.communicates_by(), "") << "another rank does not say it for all";
  report.communicates_by = std::string(3000, 'x');
  table.Store(Rank(0), report, kNow);
  EXPECT_EQ(table.communicates_by(), std::string(1024, 'x'));
  report.communicates_by = "CPU tensors by shm";
  table.Store(Rank(0), report, kNow);
  report.communicates_by.clear();
  table.Store(Rank(0), report, kNow);
  EXPECT_EQ(table.communicates_by(), "CPU tensors by shm");
}

TEST(ReportTableTest, SlackCountsWhileItIsFresh) {
  ReportTable table(2);
  WorkerReport report = InReplay(1, 0);
  report.slack_us = 5;
  table.Store(Rank(0), report, kNow);
  table.Store(Rank(1), report, kNow.PlusMs(2000));
  EXPECT_THAT(table.FreshSlack(kNow.PlusMs(2400)), ElementsAre(Pair(Rank(0), 5), Pair(Rank(1), 5)));
  EXPECT_THAT(table.FreshSlack(kNow.PlusMs(3000)), ElementsAre(Pair(Rank(1), 5)));
}

WorkerReport InItem(uint64_t item, const std::string& name, uint64_t in_flight_ms, uint32_t process_set = 0) {
  WorkerReport report;
  report.generation = {1, 7};
  report.phase = kPhase;
  report.in_flight = name;
  report.in_flight_ms = in_flight_ms;
  report.in_flight_process_set = process_set;
  report.in_flight_item = item;
  return report;
}

std::vector<int> InFlight(const ReportTable& table, uint32_t phase, TimePoint now) {
  std::vector<int> ranks;
  for (const ReportTable::InFlight& one : table.LongInFlight(phase, now)) ranks.push_back(one.rank.value());
  return ranks;
}

TEST(ReportTableTest, TellsWhoHasBeenInWhatForLong) {
  ReportTable table(6);
  EXPECT_TRUE(table.LongInFlight(kPhase, kNow).empty());
  table.Store(Rank(0), InItem(5, "x", 2500), kNow);
  table.Store(Rank(1), InItem(6, "y", 3000, 4), kNow.PlusMs(100));
  table.Store(Rank(2), InItem(5, "x", 1999), kNow);
  table.Store(Rank(3), InItem(0, "of the last replay", 9000), kNow);
  WorkerReport replays = InReplay(7, 9000);
  replays.in_flight = "z";
  table.Store(Rank(4), replays, kNow);
  const auto found = table.LongInFlight(kPhase, kNow.PlusMs(100));
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].rank, Rank(0));
  EXPECT_EQ(found[0].item, 5u);
  EXPECT_EQ(found[0].name, "x");
  EXPECT_EQ(found[1].process_set, 4u);
  EXPECT_EQ(kNow.PlusMs(100).MsSince(found[1].since), 3000);
  EXPECT_EQ(found[2].rank, Rank(4));
  EXPECT_EQ(found[2].item, 0u);
  EXPECT_EQ(found[2].name, "z");
  EXPECT_TRUE(table.LongInFlight(kPhase + 2, kNow).empty()) << "another phase";
  EXPECT_THAT(InFlight(table, kPhase, kNow.PlusMs(5050)), ElementsAre(1)) << "old reports";
}

TEST(ReportTableTest, WhatCameBeforeAReplayIsNoBatchOfIt) {
  ReportTable table(2);
  WorkerReport report = InItem(5, "x", 4000);
  report.state = WorkerState::kReplay;
  table.Store(Rank(0), report, kNow);
  EXPECT_THAT(InFlight(table, kPhase, kNow), ElementsAre(0));
  report.next = 1;  // the next one is under way already
  table.Store(Rank(0), report, kNow);
  EXPECT_EQ(table.LongInFlight(kPhase, kNow)[0].item, 5u);
  EXPECT_TRUE(table.ReplayWaits(kPhase, PeriodOf(1), kNow).empty());
  report.state = WorkerState::kHalted;
  table.Store(Rank(0), report, kNow);
  EXPECT_TRUE(table.LongInFlight(kPhase, kNow).empty());
}

}  // namespace
}  // namespace farandole::controller::waits
