#include "worker/session/tally.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace farandole::worker::session {
namespace {

Work MakeBatch(uint64_t seq, int64_t submitted_ms, DeviceKind device = DeviceKind::kHost) {
  Request request;
  request.name = "t" + std::to_string(seq);
  request.signature.dtype = DataType::kFloat32;
  request.signature.shape = {10};
  request.signature.device = device;
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
    tally.Given(&work, At(1000));
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
  Work first = MakeBatch(1, 1), second = MakeBatch(2, 1);
  first.process_set = 3;
  first.item = 7;
  tally.Given(&first, At(10));
  tally.Given(&second, At(20));
  WorkerReport report;
  tally.Fill(&report, At(110));
  EXPECT_EQ(report.in_flight, "t1");
  EXPECT_EQ(report.in_flight_process_set, 3u);
  EXPECT_EQ(report.in_flight_item, 7u);
  EXPECT_EQ(report.in_flight_ms, 100u);
  tally.Done(first, At(120), false);
  tally.Fill(&report, At(120));
  EXPECT_EQ(report.in_flight, "t2");
  EXPECT_EQ(report.in_flight_process_set, 0u);
  EXPECT_EQ(report.in_flight_item, 0u);
  EXPECT_EQ(report.batches, 0u) << "it was taken back";
}

// So many batches on a device, each of which took 4 ms if it was measured. How many were.
int RunOnDevice(Tally* tally, uint64_t batches) {
  int measured = 0;
  for (uint64_t seq = 1; seq <= batches; ++seq) {
    Work work = MakeBatch(seq, 1, DeviceKind::kAccelerator);
    tally->Given(&work, At(1));
    if (work.trace != nullptr) {
      ++measured;
      using device::PhaseKind;
      const device::Phases phases = {
          {PhaseKind::kWaited, 0.5}, {PhaseKind::kPacked, 0.25}, {PhaseKind::kNccl, 3}, {PhaseKind::kUnpacked, 0.25}};
      work.trace->collectives.push_back({"nccl", 0, 0, phases});
    }
    tally->Done(work, At(2), true);
  }
  return measured;
}

TEST(TallyTest, OfManyBatchesOnADeviceSomeAreMeasured) {
  Tally tally;
  EXPECT_EQ(RunOnDevice(&tally, Tally::kBatchesPerMeasured - 1), 0) << "NCCL connects in the first ones";
  EXPECT_EQ(RunOnDevice(&tally, 10 * Tally::kBatchesPerMeasured), 10);
  WorkerReport report;
  tally.Fill(&report, At(3));
  EXPECT_EQ(report.device_time.batches, 10u);
  EXPECT_EQ(report.device_time.waited_us, 5000u);
  EXPECT_EQ(report.device_time.packed_us, 2500u);
  EXPECT_EQ(report.device_time.nccl_us, 30000u);
  EXPECT_EQ(report.device_time.unpacked_us, 2500u);
}

// Whatever is measured for a timeline counts, too.
TEST(TallyTest, ABatchThatATimelineShowsIsMeasured) {
  Tally tally;
  Work work = MakeBatch(1, 1, DeviceKind::kAccelerator);
  work.trace = std::make_shared<Work::Trace>();
  const auto trace = work.trace;
  tally.Given(&work, At(1));
  EXPECT_EQ(work.trace, trace);
  trace->collectives.push_back({"nccl", 0, 0, {{device::PhaseKind::kNccl, 2}}});
  trace->collectives.push_back({"nccl", 0, 0, {{device::PhaseKind::kNccl, 1}}});
  tally.Done(work, At(2), true);
  WorkerReport report;
  tally.Fill(&report, At(3));
  EXPECT_EQ(report.device_time.batches, 1u);
  EXPECT_EQ(report.device_time.nccl_us, 3000u);
}

TEST(TallyTest, OnTheHostNothingIsMeasured) {
  Tally tally;
  for (uint64_t seq = 1; seq <= 2 * Tally::kBatchesPerMeasured; ++seq) {
    Work work = MakeBatch(seq, 1);
    tally.Given(&work, At(1));
    EXPECT_EQ(work.trace, nullptr);
    // As a timeline would have it.
    work.trace = std::make_shared<Work::Trace>();
    work.trace->collectives.push_back({"shm", 0, 0, {}});
    tally.Done(work, At(2), true);
  }
  WorkerReport report;
  tally.Fill(&report, At(3));
  EXPECT_EQ(report.device_time.batches, 0u);
}

}  // namespace
}  // namespace farandole::worker::session
