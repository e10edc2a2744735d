#include "base/socket_address.h"

#include <string>

#include "base/unique_fd.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(SocketAddressTest, NumbersAreReadAndWritten) {
  for (const char* text : {"127.0.0.1:4711", "[::1]:4711", "0.0.0.0:1", "[::]:65535"}) {
    const auto address = ParseSocketAddress(text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(FormatSocketAddress(*address), text);
    EXPECT_EQ(address->wildcard(), std::string(text) == "0.0.0.0:1" || std::string(text) == "[::]:65535");
  }
  EXPECT_EQ(ParseSocketAddress("[::1]:7")->host(), "::1");
  EXPECT_EQ(ParseSocketAddress("[::1]:7")->port(), 7);
}

TEST(SocketAddressTest, NamesAndHalvesAreNone) {
  for (const char* text : {"", "localhost:1", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:65536", "[::1:5", "::1]:5"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseSocketAddress(text).status())) << text;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(MakeSocketAddress("[::1]", 1).status()));
}

class ListenTest : public ::testing::Test {
 protected:
  static UniqueFd Socket() { return UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); }
};

TEST_F(ListenTest, AFreePortIsTakenAndKnown) {
  const UniqueFd fd = Socket(), other = Socket();
  ASSERT_TRUE(BindAndListen(fd.get(), MakeSocketAddress("127.0.0.1", 0).value()).ok());
  const SocketAddress address = LocalAddress(fd.get()).value();
  EXPECT_EQ(address.host(), "127.0.0.1");
  EXPECT_NE(address.port(), 0);
  const absl::Status taken = BindAndListen(other.get(), address);
  EXPECT_TRUE(absl::IsUnavailable(taken));
  EXPECT_EQ(taken.message(), "cannot listen on " + FormatSocketAddress(address) + ": Address already in use");
}

TEST_F(ListenTest, AnAddressOfAnotherMachineIsNotFound) {
  // TEST-NET-1 of RFC 5737, which no machine has.
  EXPECT_TRUE(absl::IsNotFound(BindAndListen(Socket().get(), MakeSocketAddress("192.0.2.1", 0).value())));
}

}  // namespace
}  // namespace farandole
