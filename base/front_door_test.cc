#include "base/front_door.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/auth.h"
#include "base/descriptor_limit.h"
#include "base/door_proof.h"
#include "base/scarcity_testing.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

const char kKey[] = "key";
constexpr int64_t kNowS = 1000;
const std::string& Token() {
  static const std::string token = MakeToken(kKey, "j", "member");
  return token;
}

class FrontDoorTest : public ::testing::Test {
 protected:
  // From one of loopback's addresses, 127.0.0.`from`.
  UniqueFd Dial(int from = 1) {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl((127 << 24) + from);
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    address.sin_port = htons(static_cast<uint16_t>(door_->port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return fd;
  }
  static void Say(const UniqueFd& fd, const std::string& text) {
    // The door may have closed already.
    (void)!send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
  }
  // What comes, up to `bytes` or the end.
  std::string Hear(const UniqueFd& fd, size_t bytes = 4096) {
    std::string heard;
    bool open = true;
    while (open && heard.size() < bytes) {
      const auto ready = [&] {
        pollfd entry{fd.get(), POLLIN, 0};
        return poll(&entry, 1, 0) == 1;
      };
      if (!loop_.Drive(ready, 0, loop_.Now().PlusMs(20000)) || !ready()) return heard + " and nothing more";
      char buffer[4096];
      const ssize_t n = recv(fd.get(), buffer, sizeof buffer, 0);
      open = n > 0;
      if (open) heard.append(buffer, n);
    }
    return heard;
  }
  static std::string Connect(const std::string& header) {
    return "CONNECT c:1 HTTP/1.0\r\nHost: c:1\r\n" + header + "\r\n\r\n";
  }
  static std::string ConnectWith(const std::string& credentials) {
    return Connect("Proxy-Authorization: Basic " + absl::Base64Escape(credentials));
  }
  // The first bytes of the answer to this.
  std::string Answer(const std::string& said, int from) {
    const UniqueFd guest = Dial(from);
    Say(guest, said);
    return Hear(guest, 12).substr(0, 12);
  }

  // Makes a crowd a small one.
  FewDescriptors few_{1024};
  EventLoop loop_{"test"};
  std::vector<UniqueFd> inside_;
  std::unique_ptr<FrontDoor> door_ =
      FrontDoor::OpenFromLoop(
          "127.0.0.1:0", &loop_, [](absl::string_view shown) { return ProvesAnyToken(shown, {kKey}, kNowS); },
          [this](UniqueFd fd) { inside_.push_back(std::move(fd)); }, nullptr)
          .value();
};

constexpr char kWelcome[] = "HTTP/1.1 200 Connection Established\r\n\r\n";

TEST_F(FrontDoorTest, HandsOverWhoProvesTheTokenAndReadsNothingBeyond) {
  const UniqueFd guest = Dial();
  Say(guest, Connect(DoorHeader("j", Token())));
  EXPECT_EQ(Hear(guest, sizeof kWelcome - 1), kWelcome);
  ASSERT_EQ(inside_.size(), 1u);
  Say(guest, "next");
  char buffer[8];
  EXPECT_EQ(recv(inside_[0].get(), buffer, sizeof buffer, 0), 4);
}

TEST_F(FrontDoorTest, RefusesEverythingElseAndCloses) {
  const std::string good = Connect(DoorHeader("j", Token()));
  const std::pair<std::string, std::string> cases[] = {
      {Connect(DoorHeader("j", "wrong")), "HTTP/1.1 407"},
      {Connect("Accept: all"), "HTTP/1.1 407"},
      {good + "and more", "HTTP/1.1 407"},
      {"GET / HTTP/1.0\r\n" + DoorHeader("j", Token()) + "\r\n\r\n", "HTTP/1.1 407"},
      {std::string(FrontDoor::kHeadBytesMax, 'x'), ""},
      // The first bytes of a gRPC client.
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1 407"},
  };
  for (const auto& [said, answer] : cases) {
    const UniqueFd guest = Dial();
    Say(guest, said);
    EXPECT_EQ(Hear(guest).substr(0, answer.size()), answer) << said;
  }
  EXPECT_TRUE(inside_.empty());
}

TEST_F(FrontDoorTest, AfterItsEndATokenIsRefusedInOtherWords) {
  EXPECT_EQ(Answer(Connect(DoorHeader("j", MakeToken(kKey, "j", "member", kNowS + 1))), 1), "HTTP/1.1 200");
  const std::string expired = MakeToken(kKey, "j", "observer", kNowS);
  EXPECT_EQ(Answer(Connect(DoorHeader("j", expired)), 1), "HTTP/1.1 410");
  // A wrong one does not learn that its end is over.
  EXPECT_EQ(Answer(Connect(DoorHeader("other", expired)), 1), "HTTP/1.1 407");
  EXPECT_EQ(inside_.size(), 1u);
}

TEST_F(FrontDoorTest, AProofThatWasOverheardOpensFromNowhereElse) {
  const std::string once = Connect(DoorHeader("j", Token()));
  for (const int from : {2, 2}) EXPECT_EQ(Answer(once, from), "HTTP/1.1 200");
  // The token is good: it is another answer than that to a wrong one.
  EXPECT_EQ(Answer(once, 3), "HTTP/1.1 403");
  // A part of the job has the same tokens.
  std::string as_a_part = DoorCredentials(once);
  as_a_part.insert(as_a_part.find(':'), "/part");
  EXPECT_EQ(Answer(ConnectWith(as_a_part), 3), "HTTP/1.1 403");
  EXPECT_EQ(inside_.size(), 2u);
}

TEST_F(FrontDoorTest, WhoHasAnotherTokenCannotClaimANonce) {
  const std::string mine = DoorCredentials(Connect(DoorHeader("j", Token())));
  const std::string nonce = mine.substr(2, mine.find('.') - 2);
  const std::string proof =
      absl::BytesToHexString(HmacSha256(MakeToken(kKey, "other", "member"), absl::StrCat("door/", nonce)));
  EXPECT_EQ(Answer(ConnectWith(absl::StrCat("other:", nonce, ".", proof)), 3), "HTTP/1.1 200");
  EXPECT_EQ(Answer(ConnectWith(mine), 2), "HTTP/1.1 200");
}

TEST_F(FrontDoorTest, WhoSaysNothingIsSentAwayAfterAWhile) {
  const TimePoint start = loop_.Now();
  const UniqueFd silent = Dial();
  Say(silent, "CONNECT ");
  EXPECT_EQ(Hear(silent), "");
  EXPECT_GE(loop_.Now().MsSince(start), FrontDoor::kGuestMs - 10);
}

TEST_F(FrontDoorTest, AnyNumberOfSilentOnesKeepsNobodyOut) {
  std::vector<UniqueFd> silent;
  const size_t crowd =
      std::min<size_t>(FrontDoor::kGuestsMax, DescriptorLimit() / FrontDoor::kDescriptorsPerGuest) + 40;
  for (size_t i = 0; i < crowd; ++i) silent.push_back(Dial());
  const TimePoint start = loop_.Now();
  const UniqueFd guest = Dial();
  Say(guest, Connect(DoorHeader("j", Token())));
  EXPECT_EQ(Hear(guest, sizeof kWelcome - 1), kWelcome);
  EXPECT_EQ(Hear(silent.front()), "");
  // Pushed out, long before its time was over.
  EXPECT_LT(loop_.Now().MsSince(start), FrontDoor::kGuestMs);
}

}  // namespace
}  // namespace farandole
