#include "agent/link/data_address.h"

#include <sys/socket.h>

#include <string>

#include "base/socket_address.h"
#include "base/unique_fd.h"
#include "gtest/gtest.h"

namespace farandole::agent::link {
namespace {

TEST(DataAddressTest, LoopbackIsReachedFromLoopback) {
  // Another address of loopback than the one from which it is reached.
  EXPECT_EQ(DataAddress("ipv4:127.0.0.9:4000", "127.0.0.9:4000"), "127.0.0.1");
  EXPECT_EQ(DataAddress("ipv4:127.0.0.9:4000", "localhost:4000"), "127.0.0.1");
}

TEST(DataAddressTest, AddressesOfIpv6MayBeEscaped) {
  const UniqueFd fd(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() || !BindAndListen(fd.get(), *MakeSocketAddress("::1", 0)).ok())
    GTEST_SKIP() << "there is no IPv6 here";
  EXPECT_EQ(DataAddress("ipv6:%5B::1%5D:4000", "[::1]:4000"), "::1");
  EXPECT_EQ(DataAddress("ipv6:[::1]:4000", "[::1]:4000"), "::1");
}

// As Debian's /etc/hosts has the host's own name.
TEST(DataAddressTest, ANameThatLeadsToLoopbackGivesTheDefaultRoute) {
  const std::string of_route = DataAddress("ipv4:192.0.2.7:4000", "192.0.2.7:4000");
  if (of_route.empty()) GTEST_SKIP() << "this machine has no default route";
  EXPECT_EQ(DataAddress("ipv4:127.0.1.1:4000", "node0:4000"), of_route);
}

TEST(DataAddressTest, WhatCannotBeToldIsEmpty) {
  for (const char* peer : {"", "unknown", "unix:/run/controller", "ipv4:", "ipv4:127.0.0.1", "ipv4:no-number:4000"}) {
    EXPECT_EQ(DataAddress(peer, "node0:4000"), "") << peer;
  }
}

}  // namespace
}  // namespace farandole::agent::link
