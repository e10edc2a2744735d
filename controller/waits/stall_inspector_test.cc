#include "controller/waits/stall_inspector.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::controller::waits {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const TimePoint kBegin(1000000000);

std::vector<WaitGroup> Waiting(std::initializer_list<int> missing) {
  OpenWait wait;
  wait.name = "a";
  wait.ready.Add(Rank(0));
  for (int r : missing) wait.missing.Add(Rank(r));
  wait.since = kBegin;
  return GroupWaits({wait});
}

TEST(StallInspectorTest, WarnsOnceAndAgainWhenOthersAreMissing) {
  StallInspector inspector({60000, 0});
  EXPECT_THAT(inspector.Look(Waiting({1, 2}), kBegin.PlusMs(59999)).warnings, IsEmpty());
  EXPECT_THAT(inspector.Look(Waiting({1, 2}), kBegin.PlusMs(60000)).warnings,
              ElementsAre(HasSubstr("for 60 s rank 0 has waited for ranks 1 and 2 with `a`")));
  EXPECT_THAT(inspector.Look(Waiting({1, 2}), kBegin.PlusMs(90000)).warnings, IsEmpty());
  EXPECT_THAT(inspector.Look(Waiting({2}), kBegin.PlusMs(90500)).warnings, ElementsAre(HasSubstr("for rank 2")));
  // Not at every arrival.
  EXPECT_THAT(inspector.Look(Waiting({1, 2}), kBegin.PlusMs(91000)).warnings, IsEmpty());
  EXPECT_THAT(inspector.Look(Waiting({1, 2}), kBegin.PlusMs(100500)).warnings, ElementsAre(HasSubstr("ranks 1 and 2")));
}

std::vector<WaitGroup> InCollective(uint64_t number, std::initializer_list<int> missing, TimePoint since) {
  OpenWait wait;
  wait.kind = WaitKind::kCollective;
  wait.name = "a";
  wait.number = number;
  wait.ready.Add(Rank(0));
  for (int r : missing) wait.missing.Add(Rank(r));
  wait.detail = "as it may be";
  wait.since = since;
  return GroupWaits({wait});
}

TEST(StallInspectorTest, ACollectiveForNobodyIsWarnedOfAndNeverFatal) {
  StallInspector inspector({60000, 90000});
  const auto finding = inspector.Look(InCollective(7, {}, kBegin), kBegin.PlusMs(600000));
  EXPECT_THAT(finding.warnings, ElementsAre("for 600 s rank 0 has been in `a`; as it may be"));
  EXPECT_EQ(finding.fatal, "");
  EXPECT_NE(inspector.Look(InCollective(7, {1}, kBegin), kBegin.PlusMs(600500)).fatal, "");
}

TEST(StallInspectorTest, ACollectiveIsTheSameThoughItsTimeCountsAnew) {
  StallInspector inspector({1000, 0});
  EXPECT_EQ(inspector.Look(InCollective(7, {}, kBegin), kBegin.PlusMs(20000)).warnings.size(), 1u);
  EXPECT_THAT(inspector.Look(InCollective(7, {1}, kBegin.PlusMs(20000)), kBegin.PlusMs(20500)).warnings, IsEmpty());
  EXPECT_THAT(inspector.Look(InCollective(7, {}, kBegin), kBegin.PlusMs(21000)).warnings, IsEmpty()) << "said already";
  EXPECT_EQ(inspector.Look(InCollective(8, {}, kBegin), kBegin.PlusMs(21500)).warnings.size(), 1u) << "another one";
}

TEST(StallInspectorTest, AWaitThatEndedIsForgotten) {
  StallInspector inspector({1000, 0});
  EXPECT_EQ(inspector.Look(Waiting({1}), kBegin.PlusMs(1000)).warnings.size(), 1u);
  EXPECT_THAT(inspector.Look({}, kBegin.PlusMs(1500)).warnings, IsEmpty());
  EXPECT_EQ(inspector.Look(Waiting({1}), kBegin.PlusMs(2000)).warnings.size(), 1u);
}

TEST(StallInspectorTest, TheShutdownTimeIsFatalWithASentence) {
  StallInspector inspector({0, 120000});
  EXPECT_EQ(inspector.Look(Waiting({1}), kBegin.PlusMs(119999)).fatal, "");
  const auto finding = inspector.Look(Waiting({1}), kBegin.PlusMs(120000));
  EXPECT_THAT(finding.warnings, IsEmpty());
  EXPECT_EQ(finding.fatal,
            "stalled: for 120 s rank 0 has waited for rank 1 with `a`; rank 1 has submitted nothing else; "
            "the job was ended after 120 s (HOROVOD_STALL_SHUTDOWN_TIME_SECONDS)");
  StallInspector hasty({0, 500});
  EXPECT_THAT(hasty.Look(Waiting({1}), kBegin.PlusMs(500)).fatal,
              HasSubstr("ended after 0.5 s (HOROVOD_STALL_SHUTDOWN_TIME_SECONDS)"));
}

}  // namespace
}  // namespace farandole::controller::waits
