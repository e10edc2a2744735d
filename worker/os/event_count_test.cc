#include "worker/os/event_count.h"

#include <thread>

#include "gtest/gtest.h"

namespace farandole::worker::os {
namespace {

TEST(EventCountTest, TimesOutWithoutAChange) {
  EventCount count;
  EXPECT_FALSE(count.WaitPast(count.Value(), 0));
  EXPECT_FALSE(count.WaitPast(count.Value(), 1));
}

TEST(EventCountTest, AChangeBeforeTheWaitIsSeen) {
  EventCount count;
  const uint32_t seen = count.Value();
  count.Advance();
  EXPECT_TRUE(count.WaitPast(seen, -1));
}

TEST(EventCountTest, NoWakeUpIsLost) {
  constexpr uint32_t kRounds = 20000;
  EventCount ping, pong;
  std::thread other([&] {
    for (uint32_t i = 0; i < kRounds; ++i) {
      while (ping.Value() == i) ping.WaitPast(i, -1);
      pong.Advance();
    }
  });
  for (uint32_t i = 0; i < kRounds; ++i) {
    ping.Advance();
    while (pong.Value() == i) pong.WaitPast(i, -1);
  }
  other.join();
  EXPECT_EQ(pong.Value(), kRounds);
}

}  // namespace
}  // namespace farandole::worker::os
