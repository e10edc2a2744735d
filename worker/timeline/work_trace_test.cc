#include "worker/timeline/work_trace.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

namespace farandole::worker::timeline {
namespace {

using device::PhaseKind;

session::Work WorkOf(session::Work::Trace::Collective collective) {
  session::Work work;
  work.trace = std::make_shared<session::Work::Trace>();
  work.trace->begin_ns = 1000;
  work.trace->collectives.push_back(std::move(collective));
  return work;
}

TEST(WorkTraceTest, OnTheHostACollectiveIsBetweenCopies) {
  const BatchTrace batch = TraceOf(WorkOf({"shm", 2000, 9000, {}}), 9500);
  ASSERT_EQ(batch.activities.size(), 3u);
  EXPECT_EQ(batch.activities[0].name, "MEMCPY_IN_FUSION_BUFFER");
  EXPECT_EQ(batch.activities[1].name, "SHM_");
  EXPECT_EQ(batch.activities[1].begin_ns, 2000);
  EXPECT_EQ(batch.activities[1].end_ns, 9000);
  EXPECT_EQ(batch.activities[2].name, "MEMCPY_OUT_FUSION_BUFFER");
}

// Counted back from the end that the host has seen.
TEST(WorkTraceTest, OnADeviceItIsWhatTheDeviceDid) {
  session::Work work = WorkOf({"nccl", 2000, 9'002'000, {{PhaseKind::kWaited, 1}, {PhaseKind::kNccl, 5}}});
  Request request;
  request.signature.op = OpKind::kAllreduce;
  work.operations.push_back(std::make_shared<session::Operation>(request, nullptr, nullptr));
  const BatchTrace batch = TraceOf(work, 9'003'000);
  ASSERT_EQ(batch.activities.size(), 5u);
  EXPECT_EQ(batch.activities[1].name, "QUEUE");
  EXPECT_EQ(batch.activities[1].begin_ns, 2000);
  EXPECT_EQ(batch.activities[1].end_ns, 3'002'000);
  EXPECT_EQ(batch.activities[2].name, "WAIT_FOR_DATA");
  EXPECT_EQ(batch.activities[2].end_ns, 4'002'000);
  EXPECT_EQ(batch.activities[3].name, "NCCL_ALLREDUCE");
  EXPECT_EQ(batch.activities[3].end_ns, 9'002'000);
}

// A batch with two types is two collectives, of which the second one is enqueued at once.
TEST(WorkTraceTest, CollectivesOfABatchOnADeviceAreShownOneAfterTheOther) {
  session::Work work = WorkOf({"nccl", 2000, 5'002'000, {{PhaseKind::kWaited, 1}, {PhaseKind::kNccl, 4}}});
  work.trace->collectives.push_back({"nccl", 3000, 7'002'000, {{PhaseKind::kWaited, 0}, {PhaseKind::kNccl, 2}}});
  const BatchTrace batch = TraceOf(work, 7'003'000);
  ASSERT_EQ(batch.activities.size(), 8u);
  for (size_t i = 1; i < batch.activities.size(); ++i) {
    EXPECT_GE(batch.activities[i].begin_ns, batch.activities[i - 1].end_ns) << i << " " << batch.activities[i].name;
    EXPECT_LE(batch.activities[i].begin_ns, batch.activities[i].end_ns) << i << " " << batch.activities[i].name;
  }
  EXPECT_EQ(batch.activities[4].name, "QUEUE");
  EXPECT_EQ(batch.activities[6].begin_ns, 5'002'000);
  EXPECT_EQ(batch.activities[6].end_ns, 7'002'000);
}

// Clocks differ: nothing lies outside of what the host has seen.
TEST(WorkTraceTest, TimesOfADeviceStayWithinThoseOfTheHost) {
  const BatchTrace batch =
      TraceOf(WorkOf({"nccl", 2000, 4000, {{PhaseKind::kNccl, 5}, {PhaseKind::kUnpacked, 1}}}), 4000);
  for (const BatchTrace::Activity& activity : batch.activities) {
    EXPECT_LE(activity.begin_ns, activity.end_ns) << activity.name;
    EXPECT_LE(activity.end_ns, 4000) << activity.name;
  }
}

}  // namespace
}  // namespace farandole::worker::timeline
