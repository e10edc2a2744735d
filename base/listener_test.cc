#include "base/listener.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "base/dial_testing.h"
#include "base/scarcity_testing.h"
#include "base/tcp_listen.h"
#include "gtest/gtest.h"

namespace {

// What accept4 answers instead of a connection; 0: as ever. So a security module denies it.
int denied_errno = 0;
int denied_count = 0;

}  // namespace

// In place of the C library's.
extern "C" int accept4(int fd, sockaddr* __restrict address, socklen_t* __restrict size, int flags) {
  if (denied_errno == 0) return static_cast<int>(syscall(SYS_accept4, fd, address, size, flags));
  errno = ++denied_count < 1000 ? denied_errno : EAGAIN;
  return -1;
}

namespace farandole {
namespace {

int64_t ThreadCpuMs() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

class ListenerTest : public ::testing::Test {
 protected:
  ListenerTest() { listener_.StartFromLoop(socket_.get()); }
  // A sanitizer that sees this object for the first time needs descriptors itself.
  void SetUp() override { RunFor(1); }
  // Runs the loop for so long, or until so many connections have come.
  void RunFor(int64_t ms, size_t connections = SIZE_MAX) {
    loop_.Drive([&] { return taken_.size() >= connections; }, 0, loop_.Now().PlusMs(ms));
  }

  EventLoop loop_{"test"};
  const UniqueFd socket_ = ListenTcp("127.0.0.1:0").value();
  std::vector<UniqueFd> taken_;
  int exhausted_ = 0;
  Listener listener_{&loop_, [this](UniqueFd fd) { taken_.push_back(std::move(fd)); },
                     [this](const std::string&) { ++exhausted_; }};
};

TEST_F(ListenerTest, TakesAllThatCome) {
  std::vector<UniqueFd> dialled;
  for (int i = 0; i < 2 * Listener::kConnectionsPerTurn + 1; ++i) dialled.push_back(DialPort(PortOf(socket_.get())));
  RunFor(20000, dialled.size());
  EXPECT_EQ(taken_.size(), dialled.size());
  EXPECT_EQ(exhausted_, 0);
}

TEST_F(ListenerTest, WithoutDescriptorsItWaitsAndDoesNotSpin) {
  const UniqueFd dialled = DialPort(PortOf(socket_.get()));
  {
    const NoDescriptors none;
    const int64_t before_ms = ThreadCpuMs();
    RunFor(5 * Listener::kPauseMs);
    EXPECT_LT(ThreadCpuMs() - before_ms, 2 * Listener::kPauseMs);
    EXPECT_GE(exhausted_, 1);
    EXPECT_LE(exhausted_, 6);
    EXPECT_TRUE(taken_.empty());
  }
  RunFor(20000, 1);
  EXPECT_EQ(taken_.size(), 1u);
}

TEST_F(ListenerTest, WhatIsDeniedIsAskedForAgainAfterAWhile) {
  for (const int why : {EPERM, EACCES}) {
    const UniqueFd dialled = DialPort(PortOf(socket_.get()));
    denied_count = exhausted_ = 0;
    denied_errno = why;
    RunFor(Listener::kPauseMs / 2);
    denied_errno = 0;
    EXPECT_EQ(denied_count, 1) << why;
    EXPECT_EQ(exhausted_, 1) << why;
    EXPECT_TRUE(taken_.empty());
    RunFor(20000, 1);
    EXPECT_EQ(taken_.size(), 1u);
    taken_.clear();
  }
}

TEST_F(ListenerTest, StopsAlsoWhileItWaits) {
  const UniqueFd dialled = DialPort(PortOf(socket_.get()));
  {
    const NoDescriptors none;
    RunFor(Listener::kPauseMs / 2);
    EXPECT_EQ(exhausted_, 1);
    listener_.StopFromLoop();
  }
  RunFor(2 * Listener::kPauseMs);
  EXPECT_TRUE(taken_.empty());
}

}  // namespace
}  // namespace farandole
