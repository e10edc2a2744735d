#include "agent/launcher/launcher_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "agent/launcher/packet_socket.h"
#include "base/clock.h"

namespace farandole::agent::launcher {
namespace {

constexpr int kWaitMs = 20000;

class LauncherStoreTest : public testing::Test {
 protected:
  LauncherStoreTest() : loop_("test") {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    launcher_.Reset(ends[0]);
    store_ = std::make_unique<LauncherStore>(&loop_, UniqueFd(ends[1]));
  }

  void Say(const std::string& packet, int fd = -1) {
    ASSERT_TRUE(SendPacket(launcher_.get(), packet.data(), packet.size(), &fd, fd < 0 ? 0 : 1));
  }
  std::string Heard() {
    const absl::StatusOr<Packet> packet = ReceivePacket(launcher_.get(), kWaitMs);
    return packet.ok() ? packet->bytes : packet.status().ToString();
  }

  EventLoop loop_;
  UniqueFd launcher_;
  std::unique_ptr<LauncherStore> store_;
};

ino_t InodeOf(int fd) {
  struct stat info {};
  EXPECT_EQ(fstat(fd, &info), 0);
  return info.st_ino;
}

TEST_F(LauncherStoreTest, WhatIsPutArrivesWithItsDescriptor) {
  const UniqueFd file(open("/dev/null", O_RDONLY | O_CLOEXEC));
  store_->PutFromLoop("segment a\nb", "1 2\n3", file.get());
  store_->DropFromLoop("segment ");
  store_->ReadyFromLoop();
  absl::StatusOr<Packet> packet = ReceivePacket(launcher_.get(), kWaitMs);
  ASSERT_TRUE(packet.ok()) << packet.status();
  EXPECT_EQ(packet->bytes, "put\n1 2 3\nsegment a\nb");
  ASSERT_EQ(packet->fds.size(), 1u);
  EXPECT_EQ(InodeOf(packet->fds[0].get()), InodeOf(file.get()));
  EXPECT_EQ(Heard(), "drop\n\nsegment ");
  EXPECT_EQ(Heard(), "ready");
}

TEST_F(LauncherStoreTest, ALongValueIsCut) {
  store_->PutFromLoop("k", std::string(100000, 'x'));
  const std::string packet = Heard();
  EXPECT_EQ(packet.substr(packet.size() - 2), "\nk");
  EXPECT_LE(packet.size(), kPacketBytesMax);
}

TEST_F(LauncherStoreTest, TakesAllInOrder) {
  const UniqueFd file(open("/dev/null", O_RDONLY | O_CLOEXEC));
  Say("put\n12\nworker 1", file.get());
  Say("put\n\nkey\nwith a line end");
  Say("end");
  const absl::StatusOr<std::vector<KeptEntry>> kept = store_->TakeAll();
  ASSERT_TRUE(kept.ok()) << kept.status();
  ASSERT_EQ(kept->size(), 2u);
  EXPECT_EQ((*kept)[0].key, "worker 1");
  EXPECT_EQ((*kept)[0].value, "12");
  EXPECT_EQ((*kept)[0].fds.size(), 1u);
  EXPECT_EQ((*kept)[1].key, "key\nwith a line end");
  EXPECT_TRUE((*kept)[1].fds.empty());
}

TEST_F(LauncherStoreTest, ALauncherThatGoesWhileItTellsIsAnError) {
  Say("put\n12\nworker 1");
  launcher_.Reset();
  EXPECT_TRUE(absl::IsUnavailable(store_->TakeAll().status()));
  store_->PutFromLoop("k", "v");  // to nobody
}

TEST_F(LauncherStoreTest, WaitsForALauncherThatDoesNotRead) {
  constexpr int kPuts = 2000;  // more than a socket holds
  for (int i = 0; i < kPuts; ++i) store_->PutFromLoop("k" + std::to_string(i), std::string(100, 'x'));
  int heard = 0;
  const TimePoint deadline = Clock::Monotonic().Now().PlusMs(kWaitMs);
  EXPECT_TRUE(loop_.Start().ok());
  while (heard < kPuts && Clock::Monotonic().Now() < deadline) {
    const std::string packet = Heard();
    ASSERT_EQ(packet.substr(packet.rfind('\n') + 1), "k" + std::to_string(heard));
    ++heard;
  }
  EXPECT_EQ(heard, kPuts);
  loop_.Join();
}

TEST_F(LauncherStoreTest, HearsWhomTheLauncherRetires) {
  EXPECT_TRUE(loop_.Start().ok());
  loop_.Post([this] {
    store_->ListenFromLoop([this](pid_t pid) { store_->PutFromLoop("heard " + std::to_string(pid), ""); });
  });
  Say("retire\n17");
  EXPECT_EQ(Heard(), "put\n\nheard 17");
  Say("what no launcher says");
  Say("retire\n0");
  Say("retire\n18");
  EXPECT_EQ(Heard(), "put\n\nheard 18");
  launcher_.Reset();
  loop_.Join();
}

TEST(LauncherStore, WithoutALauncherNothingIsKept) {
  EventLoop loop("test");
  LauncherStore store(&loop, UniqueFd());
  EXPECT_FALSE(store.exists());
  store.PutFromLoop("k", "v");
  store.ReadyFromLoop();
  ASSERT_TRUE(store.TakeAll().ok());
  EXPECT_TRUE(store.TakeAll()->empty());
}

}  // namespace
}  // namespace farandole::agent::launcher
