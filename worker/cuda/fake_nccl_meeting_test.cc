#include "worker/cuda/fake_nccl_meeting.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <utility>

namespace farandole::worker::cuda {
namespace {

// Ranks of which the test plays some by hand, over a plain socket.
class FakeNcclMeetingTest : public testing::Test {
 protected:
  using Result = FakeNcclMeeting::Result;

  FakeNcclMeetingTest() : name_("meeting-test-" + std::to_string(getpid())), socket_(NewSocket()) {}
  ~FakeNcclMeetingTest() override {
    if (thread_.joinable()) thread_.join();
    close(socket_);
  }

  static int NewSocket() { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); }

  // Each has a device of its own.
  static FakeNcclMeeting::Rank Is(int rank, int ranks) { return {rank, ranks, getpid(), rank, 0, 0}; }
  // `mine` meets, in a thread.
  void Start(FakeNcclMeeting::Rank mine, bool tells_death) {
    thread_ = std::thread([=] {
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      result_ = FakeNcclMeeting::Meet(name_, mine, interrupt_, deadline, tells_death);
      ended_ = true;
    });
  }
  const Result& End() {
    thread_.join();
    return result_;
  }

  sockaddr_un Address(socklen_t* bytes) const {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    const std::string name = "fake-nccl-" + name_;
    name.copy(address.sun_path + 1, name.size());
    *bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    return address;
  }
  // The test as a rank that comes to rank 0.
  void Come(const FakeNcclMeeting::Rank& as) {
    socklen_t bytes = 0;
    const sockaddr_un address = Address(&bytes);
    while (connect(socket_, reinterpret_cast<const sockaddr*>(&address), bytes) != 0) std::this_thread::yield();
    ASSERT_EQ(send(socket_, &as, sizeof(as), 0), static_cast<ssize_t>(sizeof(as)));
  }
  void Leave() { close(std::exchange(socket_, NewSocket())); }
  // The test as rank 0; until one has come.
  void Host() {
    socklen_t bytes = 0;
    const sockaddr_un address = Address(&bytes);
    ASSERT_EQ(bind(socket_, reinterpret_cast<const sockaddr*>(&address), bytes), 0);
    ASSERT_EQ(listen(socket_, 1), 0);
    const int guest = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
    FakeNcclMeeting::Rank rank = {};
    ASSERT_EQ(recv(guest, &rank, sizeof(rank), MSG_WAITALL), static_cast<ssize_t>(sizeof(rank)));
    close(guest);
  }

  const std::string name_;
  FakeNcclInterrupt interrupt_;
  int socket_;
  std::thread thread_;
  Result result_;
  std::atomic<bool> ended_{false};
};

TEST_F(FakeNcclMeetingTest, ARankThatGoesIsToldOf) {
  Start(Is(0, 3), true);
  Come(Is(1, 3));
  Leave();
  EXPECT_EQ(End().result, ncclRemoteError);
  EXPECT_EQ(result_.text, "a rank died during the init");
}

TEST_F(FakeNcclMeetingTest, AHostThatGoesIsToldOf) {
  Start(Is(1, 3), true);
  Host();
  EXPECT_EQ(End().result, ncclRemoteError);
  EXPECT_EQ(result_.text, "rank 0 died during the init");
}

TEST_F(FakeNcclMeetingTest, AHostThatGoesIsWaitedForUntilTheAbort) {
  Start(Is(2, 3), false);
  Host();
  // Takes longer than to see it.
  for (int i = 0; i < 200; ++i) std::thread([] {}).join();
  EXPECT_FALSE(ended_);
  interrupt_.Raise();
  EXPECT_EQ(End().result, ncclSuccess);
  EXPECT_EQ(result_.links, nullptr);
}

TEST_F(FakeNcclMeetingTest, RanksThatDoNotAgreeOnTheirNumber) {
  Start(Is(0, 2), false);
  Come(Is(1, 3));
  EXPECT_EQ(End().result, ncclInvalidUsage);
  EXPECT_EQ(result_.text, "rank 1 wants 3 ranks, rank 0 2");
}

TEST_F(FakeNcclMeetingTest, ARankThatIsNone) {
  Start(Is(0, 2), false);
  Come(Is(2, 2));
  EXPECT_EQ(End().result, ncclInvalidUsage);
  EXPECT_EQ(result_.text, "rank 2 has come twice, or is none of 2");
}

TEST_F(FakeNcclMeetingTest, TwoRanksZero) {
  socklen_t bytes = 0;
  const sockaddr_un address = Address(&bytes);
  ASSERT_EQ(bind(socket_, reinterpret_cast<const sockaddr*>(&address), bytes), 0);
  Start(Is(0, 2), false);
  EXPECT_EQ(End().result, ncclInvalidUsage);
}

}  // namespace
}  // namespace farandole::worker::cuda
