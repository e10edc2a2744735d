#include "worker/link/lone_controller.h"

#include "gtest/gtest.h"

namespace farandole::worker::link {
namespace {

// Joining, batches and leaving are tested through the C ABI.
TEST(LoneControllerTest, WhatACommunicatorMayAsk) {
  EventLoop loop("test-ctl");
  LoneController controller(&loop, Incarnation(1));
  const GenerationId generation{1, 1};
  EXPECT_EQ(controller.Segment(generation, "k", 4096).status().code(), absl::StatusCode::kUnavailable);
  // Nobody has joined, so there is no generation yet.
  EXPECT_EQ(controller.Put(generation, "k", "v").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(controller.Get(generation, "k", 1000).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace farandole::worker::link
