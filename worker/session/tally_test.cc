#include "worker/session/tally.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace farandole::worker::session {
namespace {

Work MakeBatch(uint64_t seq, int64_t submitted_ms) {
  Request request;
  request.name = "t" + std::to_string(seq);
  request.signature.dtype = DataType::kFloat32;
  request.signature.shape = {10};
  Work work;
  work.instance.seq = seq;
  for (int64_t earlier_ms : {3, 0}) {
    work.operations.push_back(std::make_shared<Operation>(request, nullptr, nullptr));
    work.operations.back()->submitted_ns = (submitted_ms - earlier_ms) * 1000000;
  }
  return work;
}

constexpr TimePoint At(int64_t ms) { return TimePoint().PlusMs(ms); }

TEST(TallyTest, CountsAndTakesTheMedianSlackSinceTheLastReport) {
  Tally tally;
  tally.Sent(2);
  uint64_t seq = 0;
  for (int64_t slack_ms : {1, 50, 7}) {
    Work work = MakeBatch(++seq, 1000);
    tally.Given(work, At(1000));
    tally.Done(work, At(1000 + slack_ms), true);
  }
  WorkerReport report;
  tally.Fill(&report, At(1100));
  EXPECT_EQ(report.slack_us, 7000u);
  EXPECT_EQ(report.batches, 3u);
  EXPECT_EQ(report.tensors, 6u);
  EXPECT_EQ(report.bytes, 240u);
  EXPECT_EQ(report.messages, 2u);
  EXPECT_EQ(report.in_flight_ms, 0u);
  WorkerReport idle;
  tally.Fill(&idle, At(5000));
  EXPECT_EQ(idle.slack_us, 0u);
  EXPECT_EQ(idle.batches, 3u);
}

TEST(TallyTest, SlackIsOfTheNewestBatches) {
  Tally tally;
  for (uint64_t seq = 1; seq <= 1000; ++seq) {
    Work work = MakeBatch(seq, 1000);
    tally.Done(work, At(seq <= 900 ? 9000 : 1002), true);
  }
  WorkerReport report;
  tally.Fill(&report, At(9000));
  EXPECT_EQ(report.slack_us, 2000u);
}

TEST(TallyTest, NamesTheOldestInFlight) {
  Tally tally;
  const Work first = MakeBatch(1, 1), second = MakeBatch(2, 1);
  tally.Given(first, At(10));
  tally.Given(second, At(20));
  WorkerReport report;
  tally.Fill(&report, At(110));
  EXPECT_EQ(report.in_flight, "t1");
  EXPECT_EQ(report.in_flight_ms, 100u);
  tally.Done(first, At(120), false);
  tally.Fill(&report, At(120));
  EXPECT_EQ(report.in_flight, "t2");
  EXPECT_EQ(report.batches, 0u) << "it was taken back";
}

}  // namespace
}  // namespace farandole::worker::session
