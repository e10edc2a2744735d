#include "agent/link/data_address.h"

#include <string>

#include "gtest/gtest.h"

namespace farandole::agent::link {
namespace {

TEST(DataAddressTest, LoopbackIsReachedFromLoopback) {
  EXPECT_EQ(DataAddress("ipv4:127.0.0.1:4000"), "127.0.0.1");
  EXPECT_EQ(DataAddress("ipv6:%5B::1%5D:4000"), "::1");
  EXPECT_EQ(DataAddress("ipv6:[::1]:4000"), "::1");
}

TEST(DataAddressTest, WhatCannotBeToldIsEmpty) {
  for (const char* peer : {"", "unknown", "unix:/run/controller", "ipv4:", "ipv4:127.0.0.1", "ipv4:no-number:4000"}) {
    EXPECT_EQ(DataAddress(peer), "") << peer;
  }
}

}  // namespace
}  // namespace farandole::agent::link
