#include "agent/data_address.h"

#include <string>

#include "gtest/gtest.h"

namespace farandole::agent {
namespace {

TEST(DataAddressTest, LoopbackIsReachedFromLoopback) {
  EXPECT_EQ(AddressTowards("127.0.0.1:4000"), "127.0.0.1");
  const std::string by_name = AddressTowards("localhost:4000");
  EXPECT_TRUE(by_name == "127.0.0.1" || by_name == "::1") << by_name;
}

TEST(DataAddressTest, WhatCannotBeToldIsEmpty) {
  EXPECT_EQ(AddressTowards("nothing"), "");
  EXPECT_EQ(AddressTowards(":1"), "");
  EXPECT_EQ(AddressTowards("127.0.0.1:no-port"), "");
}

}  // namespace
}  // namespace farandole::agent
