#include "agent/segment_broker.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>

namespace farandole {
namespace {

constexpr uint64_t kBytes = 1 << 20;
const GenerationId kOne{1, 1}, kTwo{2, 1}, kRestarted{1, 2};

TEST(SegmentBroker, TwoWhoAskGetOneMemory) {
  SegmentBroker broker(8 * kBytes);
  absl::StatusOr<UniqueFd> a = broker.Get(kOne, "k", kBytes), b = broker.Get(kOne, "k", kBytes);
  absl::StatusOr<UniqueFd> other = broker.Get(kOne, "other", kBytes);
  ASSERT_TRUE(a.ok() && b.ok() && other.ok());
  EXPECT_NE(a->get(), b->get());
  ASSERT_EQ(pwrite(a->get(), "farandole", 9, 1000), 9);
  char got[9] = {};
  ASSERT_EQ(pread(b->get(), got, 9, 1000), 9);
  EXPECT_EQ(std::string(got, 9), "farandole");
  ASSERT_EQ(pread(other->get(), got, 9, 1000), 9);
  EXPECT_EQ(std::string(got, 9), std::string(9, '\0'));
  EXPECT_EQ(broker.bytes(), 2 * kBytes);
}

TEST(SegmentBroker, SegmentsAreAllocatedSealedAndClosedOnExec) {
  SegmentBroker broker(8 * kBytes);
  absl::StatusOr<UniqueFd> fd = broker.Get(kOne, "k", kBytes);
  ASSERT_TRUE(fd.ok());
  struct stat info;
  ASSERT_EQ(fstat(fd->get(), &info), 0);
  EXPECT_EQ(info.st_size, kBytes);
  EXPECT_GE(info.st_blocks * 512, kBytes);
  EXPECT_EQ(fcntl(fd->get(), F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  EXPECT_EQ(ftruncate(fd->get(), 0), -1);
  EXPECT_EQ(ftruncate(fd->get(), 2 * kBytes), -1);
  EXPECT_TRUE(fcntl(fd->get(), F_GETFD) & FD_CLOEXEC);
}

TEST(SegmentBroker, ANewerGenerationDropsTheOldAndTheOldIsRefused) {
  SegmentBroker broker(8 * kBytes);
  ASSERT_TRUE(broker.Get(kOne, "k", kBytes).ok());
  ASSERT_TRUE(broker.Get(kTwo, "k", 2 * kBytes).ok());
  EXPECT_EQ(broker.bytes(), 2 * kBytes);
  EXPECT_EQ(broker.Get(kOne, "k", kBytes).status().code(), absl::StatusCode::kFailedPrecondition);
  // A restarted controller counts from 1 again; its incarnation is what makes it newer.
  EXPECT_TRUE(broker.Get(kRestarted, "k", kBytes).ok());
  EXPECT_EQ(broker.Get(kTwo, "k", kBytes).status().code(), absl::StatusCode::kFailedPrecondition);
  broker.Clear();
  EXPECT_EQ(broker.bytes(), 0);
}

TEST(SegmentBroker, BoundsAndDisagreementsAreErrors) {
  SegmentBroker broker(2 * kBytes);
  ASSERT_TRUE(broker.Get(kOne, "k", kBytes).ok());
  EXPECT_EQ(broker.Get(kOne, "k", kBytes + 1).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(broker.Get(kOne, "zero", 0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(broker.Get(kOne, "large", kBytes + 1).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(broker.Get(kOne, "huge", UINT64_MAX).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(broker.Get(kOne, "fits", kBytes).ok());
  EXPECT_EQ(broker.Get(kOne, "one more", 1).status().code(), absl::StatusCode::kResourceExhausted);

  SegmentBroker many(UINT64_MAX);
  for (int i = 0; i < SegmentBroker::kSegmentsMax; ++i) ASSERT_TRUE(many.Get(kOne, std::to_string(i), 1).ok());
  EXPECT_EQ(many.Get(kOne, "x", 1).status().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace farandole
