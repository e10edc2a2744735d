#include "base/resolve.h"

#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(ResolveTest, AnAddressStandsForItself) {
  for (const char* text : {"127.0.0.1:80", "[::1]:0"}) {
    const auto found = Resolve(text);
    ASSERT_TRUE(found.ok()) << found.status();
    ASSERT_EQ(found->size(), 1u);
    EXPECT_EQ(FormatSocketAddress(found->front()), text);
  }
}

TEST(ResolveTest, ANameStandsForItsAddresses) {
  const auto found = Resolve("localhost:80");
  ASSERT_TRUE(found.ok()) << found.status();
  for (const SocketAddress& address : *found) {
    EXPECT_EQ(address.port(), 80);
    EXPECT_TRUE(address.host() == "127.0.0.1" || address.host() == "::1") << address.host();
  }
}

TEST(ResolveTest, WhatStandsForNothingIsSaid) {
  EXPECT_TRUE(absl::IsInvalidArgument(Resolve("nothing").status()));
  EXPECT_TRUE(absl::IsUnavailable(Resolve("127.0.0.1:http").status())) << "a number";
  EXPECT_TRUE(absl::IsUnavailable(Resolve(":1").status()));
}

}  // namespace
}  // namespace farandole
