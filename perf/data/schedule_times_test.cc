#include "perf/data/schedule_times.h"

#include <gtest/gtest.h>

namespace farandole::perf::data {
namespace {

std::vector<ScheduleCandidate> TwoCandidates() {
  std::vector<ScheduleCandidate> candidates(2);
  candidates[0].name = "as it is";
  candidates[1].name = "small chunks";
  candidates[1].options.runner.chunk_bytes = 4096;
  return candidates;
}

TEST(ScheduleTimesTest, MeasureEachCandidateAtEachSize) {
  ScheduleTimesOptions options;
  options.ranks = 3;
  options.rounds = 2;
  options.sizes = {12, 300 << 10};
  for (const OpKind op :
       {OpKind::kAllreduce, OpKind::kReducescatter, OpKind::kAllgather, OpKind::kBroadcast, OpKind::kAlltoall}) {
    const auto times = MeasureSchedules(op, TwoCandidates(), options);
    ASSERT_TRUE(times.ok()) << times.status();
    ASSERT_EQ(times->size(), 2);
    for (const std::vector<double>& of_candidate : *times) {
      ASSERT_EQ(of_candidate.size(), 2);
      for (double us : of_candidate) EXPECT_GT(us, 0) << Name(op);
    }
  }
}

TEST(ScheduleTimesTest, SayWhenRanksFail) {
  ScheduleTimesOptions options;
  options.sizes = {8};
  EXPECT_TRUE(absl::IsInternal(MeasureSchedules(OpKind::kJoin, TwoCandidates(), options).status()));
  options.ranks = 1;
  EXPECT_TRUE(absl::IsInvalidArgument(MeasureSchedules(OpKind::kAllreduce, TwoCandidates(), options).status()));
}

}  // namespace
}  // namespace farandole::perf::data
