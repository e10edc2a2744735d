#include "controller/waits/wait_report.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::controller::waits {
namespace {

const TimePoint kNow(1000000000000);

OpenWait Tensor(const std::string& name, std::initializer_list<int> ready, int size, int64_t age_ms) {
  OpenWait wait;
  wait.name = name;
  for (int r : ready) wait.ready.Add(Rank(r));
  wait.missing = RankSet::All(size);
  wait.missing.RemoveAll(wait.ready);
  wait.since = TimePoint(kNow.ns() - age_ms * 1000000);
  return wait;
}

TEST(WaitReportTest, WaitsOfTheSameForTheSameAreOneSentence) {
  std::vector<OpenWait> waits;
  for (int i = 0; i < 161; ++i) waits.push_back(Tensor("t" + std::to_string(i), {0, 1, 2}, 4, 12000 - i));
  const auto groups = GroupWaits(waits);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(WaitText(groups[0], kNow),
            "for 12 s ranks 0 to 2 have waited for rank 3 with `t0`, `t1`, `t2` and 158 more; rank 3 has submitted "
            "nothing else");
  const Wait status = ToStatus(groups[0], kNow);
  EXPECT_EQ(status.name_count, 161u);
  EXPECT_EQ(status.names.size(), 8u);
  EXPECT_THAT(status.missing_ranks, ::testing::ElementsAre(Rank(3)));
  EXPECT_EQ(status.age_ms, 12000u);
}

TEST(WaitReportTest, SaysWhatTheMissingSubmittedInstead) {
  const auto groups = GroupWaits({Tensor("a", {0}, 4, 1500), Tensor("x", {2}, 4, 900), Tensor("y", {2, 3}, 4, 800)});
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(WaitText(groups[0], kNow),
            "for 1.5 s rank 0 has waited for ranks 1 to 3 with `a`; rank 2 has submitted `x` instead; rank 3 has "
            "submitted `y` instead; rank 1 has submitted nothing else");
}

TEST(WaitReportTest, EachKindHasItsWords) {
  OpenWait wait = Tensor("b", {0}, 2, 2000);
  const auto text = [&](WaitKind kind) {
    wait.kind = kind;
    return WaitText(GroupWaits({wait})[0], kNow);
  };
  EXPECT_EQ(text(WaitKind::kBarrier),
            "for 2.0 s rank 0 has waited for rank 1 at barrier `b`; rank 1 has submitted nothing else");
  EXPECT_EQ(text(WaitKind::kInit), "for 2.0 s rank 0 has waited for rank 1 in init()");
  EXPECT_EQ(text(WaitKind::kHalt), "for 2.0 s the halt of the replay has waited for rank 1");
  EXPECT_EQ(text(WaitKind::kRegister),
            "for 2.0 s the controller, which was restarted, has waited for rank 1 to register again");
  wait.detail = "rank 1 lacks `c`";
  wait.name = "batch 7";
  EXPECT_EQ(text(WaitKind::kReplay), "for 2.0 s rank 0 has been in batch 7 of the replay; rank 1 lacks `c`");
  EXPECT_EQ(text(WaitKind::kCollective), "for 2.0 s rank 0 has been in `batch 7`; rank 1 lacks `c`");
  wait.process_set = 3;
  EXPECT_THAT(text(WaitKind::kCollective), ::testing::HasSubstr(" in `batch 7` of process set 3; "));
  wait.detail.clear();
  EXPECT_THAT(text(WaitKind::kTensor), ::testing::HasSubstr("with `batch 7` of process set 3;"));
}

TEST(WaitReportTest, ACollectiveIsNothingThatWasSubmittedInstead) {
  OpenWait in_it = Tensor("x", {0}, 2, 0);
  in_it.kind = WaitKind::kCollective;
  in_it.number = 7;
  in_it.detail = "rank 2 is stopped";
  OpenWait next = in_it;
  next.number = 8;
  const auto groups = GroupWaits({in_it, next, Tensor("y", {1}, 2, 0)});
  ASSERT_EQ(groups.size(), 3u) << "each by itself";
  EXPECT_THAT(WaitText(groups[2], kNow), ::testing::HasSubstr("; rank 0 has submitted nothing else"));
}

TEST(WaitReportTest, ListsOfRanksAreBounded) {
  const auto groups = GroupWaits({Tensor("a", {0}, 10000, 0)});
  const Wait status = ToStatus(groups[0], kNow);
  EXPECT_EQ(status.missing_ranks.size(), 1024u);
  EXPECT_EQ(status.missing_count, 9999u);
}

}  // namespace
}  // namespace farandole::controller::waits
