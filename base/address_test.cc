#include "base/address.h"

#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(AddressTest, TheHostStandsBeforeTheLastColon) {
  EXPECT_EQ(HostOf("node-1:29400"), "node-1");
  EXPECT_EQ(HostOf("[::1]:0"), "[::1]");
  EXPECT_EQ(HostOf("node-1"), "");
}

TEST(AddressTest, AnAddressHasTwoParts) {
  EXPECT_EQ(SplitAddress("node-1:29400")->host, "node-1");
  EXPECT_EQ(SplitAddress("node-1:29400")->port, "29400");
  EXPECT_EQ(SplitAddress("[fe80::1]:0")->host, "fe80::1");
  EXPECT_EQ(SplitAddress(":0")->host, "");
  for (const char* half : {"", "node-1", "[::1:0", "::1]:0", "[::1]"}) EXPECT_FALSE(SplitAddress(half)) << half;
}

TEST(AddressTest, GrpcWritesASchemeBeforeIt) {
  EXPECT_EQ(AddressOfPeer("ipv4:10.0.0.7:4711"), "10.0.0.7:4711");
  EXPECT_EQ(AddressOfPeer("ipv6:%5B::1%5D:4711"), "[::1]:4711");
  EXPECT_EQ(AddressOfPeer("ipv6:[::1]:4711"), "[::1]:4711");
  EXPECT_EQ(AddressOfPeer("unknown"), "");
}

TEST(AddressTest, LoopbackIsAnAddressOrItsName) {
  EXPECT_TRUE(IsLoopback("127.0.0.1:0"));
  EXPECT_TRUE(IsLoopback("127.9.9.9:0"));
  EXPECT_TRUE(IsLoopback("[::1]:0"));
  EXPECT_TRUE(IsLoopback("localhost:0"));
  EXPECT_FALSE(IsLoopback("127.0.0.1.example.org:0"));
  EXPECT_FALSE(IsLoopback("10.0.0.1:0"));
  EXPECT_FALSE(IsLoopback("[::]:0"));
}

}  // namespace
}  // namespace farandole
