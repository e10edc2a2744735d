#include "controller/rpc/health_gate.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/dial_testing.h"
#include "gtest/gtest.h"

namespace farandole::controller::rpc {
namespace {

const std::string kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

class HealthGateTest : public ::testing::Test {
 protected:
  UniqueFd Dial() { return DialPort(gate_->port()); }
  static void Say(const UniqueFd& fd, const std::string& text) {
    EXPECT_EQ(send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  bool RunUntil(const std::function<bool()>& done) { return loop_.Drive(done, 0, loop_.Now().PlusMs(20000)) || done(); }
  // Up to so many bytes, or to the end.
  std::string Hear(const UniqueFd& fd, size_t bytes) {
    std::string heard;
    bool open = true;
    RunUntil([&] {
      char buffer[4096];
      const ssize_t n = open ? recv(fd.get(), buffer, sizeof buffer, MSG_DONTWAIT) : 0;
      if (n > 0) heard.append(buffer, n);
      open = open && (n > 0 || (n < 0 && errno == EAGAIN));
      return !open || heard.size() >= bytes;
    });
    return heard;
  }
  const UniqueFd& Server(size_t number) {
    EXPECT_TRUE(RunUntil([&] { return servers_.size() > number; }));
    return servers_[number];
  }

  EventLoop loop_{"test"};
  std::vector<UniqueFd> servers_;
  std::unique_ptr<HealthGate> gate_ =
      HealthGate::Open("127.0.0.1:0", &loop_, [this](UniqueFd fd) { servers_.push_back(std::move(fd)); }).value();
};

TEST_F(HealthGateTest, PassesOnWhatBothSayAndTheEnd) {
  UniqueFd client = Dial();
  Say(client, kPreface);
  EXPECT_EQ(Hear(Server(0), kPreface.size()), kPreface);
  Say(Server(0), "answer");
  EXPECT_EQ(Hear(client, 6), "answer");
  client.Reset();
  EXPECT_EQ(Hear(Server(0), 1), "");
}

TEST_F(HealthGateTest, TheServerSeesNothingOfAHeaderBlockThatIsTooLong) {
  const UniqueFd client = Dial();
  // HEADERS that announce one byte more than is allowed.
  const size_t bytes = FrameLimit::kHeaderBytesMax + 1;
  std::string frame = {0, static_cast<char>(bytes >> 8), static_cast<char>(bytes & 255), 1};
  Say(client, kPreface + frame + std::string(100, '\0'));
  EXPECT_EQ(Hear(client, 1), "");
  EXPECT_EQ(Hear(Server(0), 1), "");
}

TEST_F(HealthGateTest, SoManyBytesASecondGoThrough) {
  const UniqueFd client = Dial();
  const TimePoint start = loop_.Now();
  // DATA frames of 4,096 bytes.
  const std::string data = std::string("\0\20\0\0\0\0\0\0\1", 9) + std::string(4096, 'x');
  Say(client, kPreface + data + data);
  EXPECT_EQ(Hear(Server(0), kPreface.size() + 2 * data.size()), kPreface + data + data);
  EXPECT_GE(loop_.Now().MsSince(start), 1900);
}

TEST_F(HealthGateTest, AFurtherConnectionTakesThePlaceOfTheOldest) {
  std::vector<UniqueFd> clients;
  for (size_t i = 0; i <= HealthGate::kSlots; ++i) clients.push_back(Dial());
  EXPECT_EQ(Hear(clients.front(), 1), "");
  Say(clients.back(), kPreface);
  EXPECT_EQ(Hear(Server(HealthGate::kSlots), kPreface.size()), kPreface);
}

}  // namespace
}  // namespace farandole::controller::rpc
