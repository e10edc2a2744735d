#include "controller/waits/wait_watch.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::controller::waits {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const TimePoint kBegin(1000000000000);

OpenWait Tensor(const std::string& name, std::initializer_list<int> ready, int size) {
  OpenWait wait;
  wait.name = name;
  for (int r : ready) wait.ready.Add(Rank(r));
  wait.missing = RankSet::All(size);
  wait.missing.RemoveAll(wait.ready);
  wait.since = kBegin;
  return wait;
}

TEST(WaitWatchTest, LooksOnlyWhileSomethingIsOpen) {
  WaitWatch watch(2, {});
  EXPECT_TRUE(watch.next_look() == TimePoint::Infinite());
  watch.Announced(Rank(0), kBegin, false, kBegin);
  EXPECT_TRUE(watch.next_look() == kBegin.PlusMs(500));
  watch.Look({Tensor("a", {0}, 2)}, RankSet::All(3), kBegin.PlusMs(500));
  EXPECT_TRUE(watch.next_look() == kBegin.PlusMs(1000));
  watch.Look({}, RankSet::All(3), kBegin.PlusMs(1000));
  EXPECT_TRUE(watch.next_look() == TimePoint::Infinite());
}

TEST(WaitWatchTest, DivergenceIsSaidOnceAndFatalAfterAWhile) {
  WatchConfig config;
  config.divergence_after_ms = 3000;
  WaitWatch watch(3, config);
  std::vector<OpenWait> waits = {Tensor("A", {0}, 3), Tensor("B", {1}, 3)};
  // It may be for a moment only.
  EXPECT_THAT(watch.Look(waits, RankSet::All(3), kBegin.PlusMs(500)).said, IsEmpty());
  EXPECT_THAT(watch.Look(waits, RankSet::All(3), kBegin.PlusMs(1000)).said, IsEmpty());
  const auto said = watch.Look(waits, RankSet::All(3), kBegin.PlusMs(1500));
  EXPECT_THAT(said.said, ElementsAre(HasSubstr("the scripts of ranks 0 and 1 have diverged: rank 0 waits for `A`")));
  EXPECT_EQ(said.fatal, "");
  // One more comes to the same request.
  waits[0] = Tensor("A", {0, 2}, 3);
  EXPECT_THAT(watch.Look(waits, RankSet::All(3), kBegin.PlusMs(2000)).said, IsEmpty());
  JobStatus status;
  watch.FillStatus(waits, kBegin.PlusMs(2000), &status);
  EXPECT_THAT(status.divergence, HasSubstr("rank 1 waits for `B`"));
  EXPECT_THAT(watch.Look(waits, RankSet::All(3), kBegin.PlusMs(3500)).fatal,
              HasSubstr("ended after 3 s (FARANDOLE_DIVERGENCE_SECONDS)"));
}

TEST(WaitWatchTest, WhoIsInACollectiveHasNotDiverged) {
  WaitWatch watch(2, WatchConfig());
  OpenWait in_it = Tensor("A", {0}, 2);
  in_it.kind = WaitKind::kCollective;
  in_it.detail = "rank 1 has not begun it";
  const std::vector<OpenWait> waits = {in_it, Tensor("B", {1}, 2)};
  for (int64_t ms = 500; ms < 60000; ms += 500) {
    EXPECT_THAT(watch.Look(waits, RankSet::All(2), kBegin.PlusMs(ms)).said, IsEmpty()) << ms;
  }
}

TEST(WaitWatchTest, InAFullListNoDivergenceIsLookedFor) {
  for (size_t collectives : {0, 1}) {
    WaitWatch watch(2, WatchConfig());
    std::vector<OpenWait> waits = {Tensor("A", {0}, 2), Tensor("B", {1}, 2)};
    if (collectives == 1) {
      waits.insert(waits.begin(), Tensor("C", {0}, 2));
      waits[0].kind = WaitKind::kCollective;
    }
    while (waits.size() < WaitWatch::kWaitsMax) waits.push_back(Tensor("A", {0}, 2));
    for (int64_t ms = 500; ms < 5000; ms += 500) {
      EXPECT_THAT(watch.Look(waits, RankSet::All(2), kBegin.PlusMs(ms)).said, IsEmpty()) << collectives;
    }
    waits.pop_back();
    for (int64_t ms = 5000; ms < 6000; ms += 500) watch.Look(waits, RankSet::All(2), kBegin.PlusMs(ms));
    EXPECT_EQ(watch.Look(waits, RankSet::All(2), kBegin.PlusMs(6500)).said.size(), 1u) << collectives;
  }
}

TEST(WaitWatchTest, AnOrderThatDiffersForAMomentIsNoDivergence) {
  WaitWatch watch(2, {});
  TimePoint now = kBegin;
  // Whenever one looks the ranks have submitted different tensors first; it is another step each time.
  for (int i = 0; i < 20; ++i) {
    std::vector<OpenWait> waits = {Tensor("A", {0}, 2), Tensor("B", {1}, 2)};
    for (OpenWait& wait : waits) wait.since = now;
    now = now.PlusMs(500);
    EXPECT_THAT(watch.Look(waits, RankSet::All(3), now).said, IsEmpty()) << i;
  }
  // Nor is it known of one that cannot be heard what it has submitted meanwhile.
  const std::vector<OpenWait> both = {Tensor("A", {0}, 2), Tensor("B", {1}, 2)};
  RankSet heard;
  heard.Add(Rank(0));
  EXPECT_THAT(watch.Look(both, heard, now.PlusMs(500)).said, IsEmpty());
  EXPECT_THAT(watch.Look(both, heard, now.PlusMs(5000)).said, IsEmpty());
  now = now.PlusMs(5000);
  // When one of them is answered the other scripts go on, too: one second more.
  const std::vector<OpenWait> three = {Tensor("A", {0}, 2), Tensor("B", {1}, 2), Tensor("C", {1}, 2)};
  const std::vector<OpenWait> two(three.begin(), three.end() - 1);
  EXPECT_THAT(watch.Look(three, RankSet::All(3), now.PlusMs(500)).said, IsEmpty());
  EXPECT_THAT(watch.Look(two, RankSet::All(3), now.PlusMs(1500)).said, IsEmpty());
  EXPECT_THAT(watch.Look({}, RankSet::All(3), now.PlusMs(2500)).said, IsEmpty());
}

TEST(WaitWatchTest, RatesLeaveOutWhatWasDoneUnderAnEarlierController) {
  WaitWatch watch(2, {});
  WorkerReport report;
  TimePoint now = kBegin;
  for (int s = 0; s <= 5; ++s) {
    report.bytes = 500000000 + 500 * s;
    // One after the other: what the second brings along comes when there are rates already.
    for (int r = 0; r < 2; ++r) watch.Reported(Rank(r), report, now.PlusMs(100 * r));
    now = now.PlusMs(1000);
  }
  JobStatus status;
  watch.FillStatus({}, now, &status);
  EXPECT_EQ(status.traffic.bytes, 1000005000u);
  EXPECT_NEAR(static_cast<double>(status.bytes_per_second), 1000, 200);
}

TEST(WaitWatchTest, LatenessComesFromSlackWhenNothingIsAnnounced) {
  WaitWatch watch(2, {});
  for (int r = 0; r < 2; ++r) {
    WorkerReport report;
    report.slack_us = r == 0 ? 50000 : 1000;
    report.bytes = 10;
    report.device_time.batches = r;
    report.communicates_by = "CPU tensors by shm";
    watch.Reported(Rank(r), report, kBegin);
  }
  EXPECT_TRUE(watch.next_look() < TimePoint::Infinite());
  watch.Look({}, RankSet::All(3), kBegin.PlusMs(500));
  JobStatus status;
  status.members.resize(2);
  for (int r = 0; r < 2; ++r) status.members[r].member.rank = Rank(r);
  watch.FillStatus({}, kBegin.PlusMs(500), &status);
  EXPECT_EQ(status.members[0].lateness.mean_us, 0u);
  EXPECT_EQ(status.members[1].lateness.mean_us, 49000u);
  EXPECT_EQ(status.traffic.bytes, 20u);
  EXPECT_EQ(status.communicates_by, "CPU tensors by shm");
  EXPECT_EQ(status.members[1].report_age_ms, 500u);
  EXPECT_EQ(status.members[0].device_time.batches, 0u);
  EXPECT_EQ(status.members[1].device_time.batches, 1u);
}

}  // namespace
}  // namespace farandole::controller::waits
