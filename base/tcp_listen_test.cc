#include "base/tcp_listen.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

// Whether somebody listens on this port of 127.0.0.1.
bool Reaches4(int port) {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
}

// Of ::1.
bool Reaches6(int port) {
  const UniqueFd fd(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 to{};
  to.sin6_family = AF_INET6;
  to.sin6_port = htons(static_cast<uint16_t>(port));
  to.sin6_addr = in6addr_loopback;
  return connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
}

// Whether this machine has IPv6 on loopback.
bool HasIpv6() {
  const UniqueFd fd(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  return fd.valid() && bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}

TEST(TcpListenTest, AllAddressesAreThoseOfBothFamilies) {
  for (const char* host : {"0.0.0.0", "[::]", ""}) {
    const auto fd = ListenTcp(absl::StrCat(host, ":0"));
    ASSERT_TRUE(fd.ok()) << fd.status();
    EXPECT_TRUE(Reaches4(PortOf(fd->get()))) << host;
    EXPECT_EQ(Reaches6(PortOf(fd->get())), HasIpv6()) << host;
  }
}

TEST(TcpListenTest, AnAddressIsThatOne) {
  const auto fd4 = ListenTcp("127.0.0.1:0");
  ASSERT_TRUE(fd4.ok()) << fd4.status();
  EXPECT_TRUE(Reaches4(PortOf(fd4->get())));
  EXPECT_FALSE(Reaches6(PortOf(fd4->get())));
  const auto fd6 = ListenTcp("[::1]:0");
  ASSERT_EQ(fd6.ok(), HasIpv6()) << fd6.status();
  if (!fd6.ok()) return;
  EXPECT_TRUE(Reaches6(PortOf(fd6->get())));
  EXPECT_FALSE(Reaches4(PortOf(fd6->get())));
}

TEST(TcpListenTest, ANameIsOneOfItsAddresses) {
  const auto fd = ListenTcp("localhost:0");
  ASSERT_TRUE(fd.ok()) << fd.status();
  EXPECT_NE(Reaches4(PortOf(fd->get())), Reaches6(PortOf(fd->get())));
}

TEST(TcpListenTest, APortThatIsTakenIsNotTakenInOneFamilyOnly) {
  const auto fd = ListenTcp("127.0.0.1:0");
  ASSERT_TRUE(fd.ok()) << fd.status();
  const auto again = ListenTcp(absl::StrCat("0.0.0.0:", PortOf(fd->get())));
  EXPECT_EQ(again.status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace farandole
