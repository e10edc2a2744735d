#include "agent/segments/segment_broker.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cstring>
#include <string>
#include <utility>

#include "agent/launcher/launcher_store.h"
#include "agent/launcher/packet_socket.h"
#include "base/event_loop.h"

namespace farandole::agent::segments {
namespace {

// No launcher keeps anything.
launcher::LauncherStore* Nobody() {
  static EventLoop* const loop = new EventLoop("test");
  static launcher::LauncherStore* const store = new launcher::LauncherStore(loop, UniqueFd());
  return store;
}

constexpr uint64_t kBytes = 1 << 20;
const GenerationId kOne{1, 1}, kTwo{2, 1}, kRestarted{1, 2};

TEST(SegmentBroker, TwoWhoAskGetOneMemory) {
  SegmentBroker broker(8 * kBytes, Nobody());
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
  SegmentBroker broker(8 * kBytes, Nobody());
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
  SegmentBroker broker(8 * kBytes, Nobody());
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

TEST(SegmentBroker, TheNextAgentHandsOutTheSame) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd launcher(ends[0]);
  EventLoop loop("test");
  launcher::LauncherStore store(&loop, UniqueFd(ends[1]));
  SegmentBroker broker(8 * kBytes, &store);
  absl::StatusOr<UniqueFd> before = broker.Get(kTwo, "k/1", kBytes);
  ASSERT_TRUE(before.ok());
  ASSERT_EQ(pwrite(before->get(), "farandole", 9, 1000), 9);

  absl::StatusOr<launcher::Packet> packet = launcher::ReceivePacket(launcher.get(), 20000);
  ASSERT_TRUE(packet.ok()) << packet.status();
  EXPECT_EQ(packet->bytes, "put\n2 1 1048576\nsegment k/1");
  launcher::KeptEntry entry{"segment k/1", "2 1 1048576", std::move(packet->fds)};
  launcher::KeptEntry other{"worker 1", "2", {}};
  SegmentBroker next(8 * kBytes, Nobody());
  EXPECT_FALSE(next.Restore(&other));
  ASSERT_TRUE(next.Restore(&entry));
  EXPECT_EQ(next.bytes(), kBytes);
  EXPECT_EQ(next.Get(kOne, "k/1", kBytes).status().code(), absl::StatusCode::kFailedPrecondition);
  absl::StatusOr<UniqueFd> after = next.Get(kTwo, "k/1", kBytes);
  ASSERT_TRUE(after.ok()) << after.status();
  char got[9] = {};
  ASSERT_EQ(pread(after->get(), got, 9, 1000), 9);
  EXPECT_EQ(std::string(got, 9), "farandole");

  broker.Clear();
  EXPECT_EQ(launcher::ReceivePacket(launcher.get(), 20000)->bytes, "drop\n\nsegment ");
}

TEST(SegmentBroker, AnAgentThatMayUseLessThanTheOneBeforeItGivesNoMore) {
  SegmentBroker broker(8 * kBytes, Nobody());
  launcher::KeptEntry entry{"segment k", "2 1 1048576", {}};
  entry.fds.push_back(broker.Get(kTwo, "k", kBytes).value());
  SegmentBroker next(kBytes / 2, Nobody());
  ASSERT_TRUE(next.Restore(&entry));
  EXPECT_EQ(next.Get(kTwo, "one more", 1).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(next.Get(kTwo, "k", kBytes).ok());
}

TEST(SegmentBroker, BoundsAndDisagreementsAreErrors) {
  SegmentBroker broker(2 * kBytes, Nobody());
  ASSERT_TRUE(broker.Get(kOne, "k", kBytes).ok());
  EXPECT_EQ(broker.Get(kOne, "k", kBytes + 1).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(broker.Get(kOne, std::string(SegmentBroker::kKeyBytesMax + 1, 'k'), 1).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(broker.Get(kOne, "zero", 0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(broker.Get(kOne, "large", kBytes + 1).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(broker.Get(kOne, "huge", UINT64_MAX).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(broker.Get(kOne, "fits", kBytes).ok());
  EXPECT_EQ(broker.Get(kOne, "one more", 1).status().code(), absl::StatusCode::kResourceExhausted);

  SegmentBroker many(UINT64_MAX, Nobody());
  for (int i = 0; i < SegmentBroker::kSegmentsMax; ++i) ASSERT_TRUE(many.Get(kOne, std::to_string(i), 1).ok());
  EXPECT_EQ(many.Get(kOne, "x", 1).status().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace farandole::agent::segments
