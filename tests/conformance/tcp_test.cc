// What only a network has: processes that die, and strangers.

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/dial_testing.h"
#include "base/listener.h"
#include "base/private_fd.h"
#include "base/socket_address.h"
#include "base/unique_fd.h"
#include "gtest/gtest.h"
#include "tests/conformance/ends.h"
#include "tests/conformance/outcome.h"
#include "transport/handshake.h"
#include "transport/tcp/acceptor.h"
#include "transport/tcp/message_stream.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/transport.h"

namespace farandole::conformance {
namespace {

const transport::Pairing kConnecting{"job/1", "1", "0", "key"};
const transport::Pairing kAccepting{"job/1", "0", "1", "key"};

// True if the other side closes within the time.
bool ClosesWithin(int fd, int ms) {
  const TimePoint end = InMs(ms);
  for (;;) {
    pollfd entry{fd, POLLIN, 0};
    const int64_t left = end.MsSince(Clock::Monotonic().Now());
    if (left <= 0 || poll(&entry, 1, static_cast<int>(left)) <= 0) return false;
    char bytes[4096];
    if (recv(fd, bytes, sizeof bytes, 0) <= 0) return true;
  }
}

class TcpTest : public testing::Test {
 protected:
  void ExpectStillMeets(Meeting* accept) {
    EXPECT_FALSE(accept->over());
    transport::tcp::TcpTransport other;
    Meeting connect;
    connect.Connect(&other, address_, kConnecting, InMs(10000));
    absl::StatusOr<std::unique_ptr<transport::Channel>> one = connect.Wait();
    EXPECT_TRUE(one.ok()) << one.status();
    EXPECT_TRUE(accept->Wait().ok());
  }

  transport::tcp::TcpTransport transport_;
  const std::string address_ = transport_.Listen().value_or("");
};

TEST_F(TcpTest, AStrangerWhoSaysNothingIsDropped) {
  Meeting accept;
  accept.Accept(&transport_, kAccepting, InMs(20000));
  UniqueFd stranger = DialTcp(address_);
  EXPECT_TRUE(ClosesWithin(stranger.get(), transport::tcp::Acceptor::kGuestMs + 3000));
  ExpectStillMeets(&accept);
}

TEST_F(TcpTest, AStrangerWhoTalksNonsenseIsDroppedAtOnce) {
  Meeting accept;
  accept.Accept(&transport_, kAccepting, InMs(20000));
  const std::string garbage[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", std::string(2, '\0'), std::string(100000, '\xff'),
                                 std::string("\x05\x00hello", 7)};
  for (const std::string& bytes : garbage) {
    UniqueFd stranger = DialTcp(address_);
    (void)!send(stranger.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    EXPECT_TRUE(ClosesWithin(stranger.get(), transport::tcp::Acceptor::kGuestMs / 2));
  }
  ExpectStillMeets(&accept);
}

TEST_F(TcpTest, AStrangerWhoKnowsTheNamesButNotTheKeyGetsNowhere) {
  Meeting accept;
  accept.Accept(&transport_, kAccepting, InMs(20000));
  UniqueFd stranger = DialTcp(address_);
  transport::tcp::MessageStream stream(stranger.get());
  const transport::InitiatorHandshake initiator("tcp", kConnecting);
  ASSERT_TRUE(stream.Write(initiator.Hello()).ok());
  pollfd entry{stranger.get(), POLLIN, 0};
  ASSERT_EQ(poll(&entry, 1, 5000), 1);
  auto challenge = stream.Read();
  ASSERT_TRUE(challenge.ok() && challenge->has_value());
  // It gives the acceptor's own MAC back.
  ASSERT_TRUE(stream.Write("P" + (*challenge)->substr((*challenge)->size() - 32)).ok());
  EXPECT_TRUE(ClosesWithin(stranger.get(), transport::tcp::Acceptor::kGuestMs / 2));
  ExpectStillMeets(&accept);
}

TEST_F(TcpTest, HalfOpenHandshakesAreBoundedInNumber) {
  Meeting accept;
  accept.Accept(&transport_, kAccepting, InMs(20000));
  const TimePoint start = Clock::Monotonic().Now();
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < transport::tcp::Acceptor::kGuestsMax + 40; ++i) strangers.push_back(DialTcp(address_));
  // The first 40 were pushed out, long before their time was over (a machine too slow for that proves nothing).
  bool closed = true;
  for (int i = 0; i < 40 && closed; ++i)
    closed = ClosesWithin(strangers[i].get(), transport::tcp::Acceptor::kGuestMs / 2);
  if (Clock::Monotonic().Now().MsSince(start) < transport::tcp::Acceptor::kGuestMs) {
    EXPECT_TRUE(closed);
  }
  ExpectStillMeets(&accept);
}

TEST_F(TcpTest, AWrongServiceOnThePortIsNamed) {
  absl::StatusOr<PrivateFd> listener = transport::tcp::ListenOn("127.0.0.1");
  ASSERT_TRUE(listener.ok());
  Meeting connect;
  connect.Connect(&transport_, FormatSocketAddress(LocalAddress(listener->get()).value()), kConnecting, InMs(10000));
  pollfd entry{listener->get(), POLLIN, 0};
  ASSERT_EQ(poll(&entry, 1, 5000), 1);
  absl::StatusOr<UniqueFd> guest = AcceptNext(listener->get());
  ASSERT_TRUE(guest.ok());
  const std::string answer = std::string("\x04\x00HTTP", 6);
  ASSERT_EQ(send(guest->get(), answer.data(), answer.size(), MSG_NOSIGNAL), 6);
  EXPECT_EQ(connect.Wait().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(TcpTest, ASilentServiceOnThePortEndsAtTheDeadline) {
  absl::StatusOr<PrivateFd> listener = transport::tcp::ListenOn("127.0.0.1");
  ASSERT_TRUE(listener.ok());
  Meeting connect;
  connect.Connect(&transport_, FormatSocketAddress(LocalAddress(listener->get()).value()), kConnecting, InMs(100));
  EXPECT_EQ(connect.Wait().status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(TcpTest, AddressesAreCheckedBeforeUse) {
  for (const char* address :
       {"", "localhost", "localhost:1", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:99999", "[::1:5"}) {
    Meeting connect;
    connect.Connect(&transport_, address, kConnecting, InMs(10000));
    EXPECT_EQ(connect.Wait().status().code(), absl::StatusCode::kInvalidArgument) << address;
  }
  EXPECT_EQ(transport::tcp::TcpTransport({"0.0.0.0"}).Listen().status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(transport::tcp::TcpTransport({"192.0.2.1"}).Usable().code(), absl::StatusCode::kUnavailable);
}

// A process at the other end. Forked while this one has no threads, told the address later; ends by itself when the
// test is gone.
class Peer {
 public:
  // `sends`: it is in the middle of a large send when it dies. `child`: a process that it has forked lives on.
  Peer(bool sends, bool child) {
    EXPECT_EQ(pipe2(address_, O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(lifeline_, O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ == 0) Run(sends, child);
  }
  ~Peer() {
    Kill();
    for (int fd : {address_[0], address_[1], lifeline_[0], lifeline_[1]}) close(fd);
  }
  void Tell(const std::string& address) { EXPECT_GT(write(address_[1], address.data(), address.size()), 0); }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  void WaitForEnd() {
    char byte;
    (void)!read(lifeline_[0], &byte, 1);
    _exit(0);
  }
  void Run(bool sends, bool child) {
    close(address_[1]);
    close(lifeline_[1]);
    char text[64] = {};
    if (read(address_[0], text, sizeof text - 1) <= 0) _exit(1);
    transport::tcp::TcpTransport transport;
    Meeting connect;
    connect.Connect(&transport, text, kConnecting, InMs(20000));
    absl::StatusOr<std::unique_ptr<transport::Channel>> channel = connect.Wait();
    if (!channel.ok()) _exit(1);
    Bytes hello("hello"), large(32 << 20);
    Outcome sent, flood;
    if (child && fork() == 0) {
      ClosePrivateFdsInChild();
      WaitForEnd();
    }
    (*channel)->Send({0, 1}, hello.block(), InMs(60000), sent.done());
    if (sends) (*channel)->Send({0, 2}, large.block(), InMs(60000), flood.done());
    WaitForEnd();
  }

  int address_[2];
  int lifeline_[2];
  pid_t pid_ = 0;
};

class PeerDeathTest : public testing::TestWithParam<std::tuple<bool, bool>> {};
INSTANTIATE_TEST_SUITE_P(SendingAndForked, PeerDeathTest, testing::Combine(testing::Bool(), testing::Bool()));

TEST_P(PeerDeathTest, EndsEverythingWithinABound) {
  const bool sends = std::get<0>(GetParam());
  Peer peer(sends, std::get<1>(GetParam()));
  transport::tcp::TcpTransport transport;
  Meeting accept;
  accept.Accept(&transport, kAccepting, InMs(20000));
  peer.Tell(transport.Listen().value());
  absl::StatusOr<std::unique_ptr<transport::Channel>> channel = accept.Wait();
  ASSERT_TRUE(channel.ok()) << channel.status();
  Bytes hello(5), in(32 << 20), large(32 << 20);
  Outcome greeted, receiving, sending, other;
  (*channel)->Receive({0, 1}, hello.block(), InMs(60000), greeted.done());
  ASSERT_TRUE(greeted.Wait().ok()) << greeted.Wait();
  EXPECT_EQ(hello.text(), "hello");
  // With `sends`, the large frame has no receive: it stands before the end of the stream.
  if (!sends) (*channel)->Receive({0, 2}, in.block(), InMs(60000), receiving.done());
  (*channel)->Receive({0, 3}, {}, InMs(60000), other.done());
  (*channel)->Send({0, 4}, large.block(), InMs(60000), sending.done());
  const TimePoint killed = Clock::Monotonic().Now();
  peer.Kill();
  if (!sends) {
    EXPECT_EQ(receiving.Wait().code(), absl::StatusCode::kUnavailable) << receiving.Wait();
  }
  EXPECT_EQ(other.Wait().code(), absl::StatusCode::kUnavailable) << other.Wait();
  EXPECT_EQ(sending.Wait().code(), absl::StatusCode::kUnavailable) << sending.Wait();
  EXPECT_LT(Clock::Monotonic().Now().MsSince(killed), 2000);
}

}  // namespace
}  // namespace farandole::conformance
