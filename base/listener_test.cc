#include "base/listener.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include <vector>

#include "base/tcp_listen.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

int64_t ThreadCpuMs() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

// Connects at once: nobody has to accept for that.
UniqueFd Dial(int port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return fd;
}

// This process has no descriptor left; the kernel's limit is put back at the end.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    // The lowest free number.
    const UniqueFd next(fcntl(0, F_DUPFD_CLOEXEC, 0));
    rlimit now = before_;
    now.rlim_cur = next.get();
    setrlimit(RLIMIT_NOFILE, &now);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

class ListenerTest : public ::testing::Test {
 protected:
  ListenerTest() { listener_.StartFromLoop(socket_.get()); }
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
  for (int i = 0; i < 2 * Listener::kConnectionsPerTurn + 1; ++i) dialled.push_back(Dial(PortOf(socket_.get())));
  RunFor(20000, dialled.size());
  EXPECT_EQ(taken_.size(), dialled.size());
  EXPECT_EQ(exhausted_, 0);
}

TEST_F(ListenerTest, WithoutDescriptorsItWaitsAndDoesNotSpin) {
  const UniqueFd dialled = Dial(PortOf(socket_.get()));
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

TEST_F(ListenerTest, StopsAlsoWhileItWaits) {
  const UniqueFd dialled = Dial(PortOf(socket_.get()));
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
