#include "controller/rpc/wake_up.h"

#include "gtest/gtest.h"

namespace farandole::controller::rpc {
namespace {

TEST(WakeUp, WhatIsSetLastTakesThePlaceOfWhatWasSetBefore) {
  EventLoop loop("test");
  int woken = 0;
  WakeUp wake_up(&loop, [&] { ++woken; });
  const TimePoint now = loop.Now();
  for (int ms = 20; ms > 0; --ms) wake_up.At(now.PlusMs(ms));
  // Behind all that could wake.
  loop.AddTimerFromLoop(now.PlusMs(21), [&] { loop.Stop(); });
  loop.Run();
  EXPECT_EQ(woken, 1);
}

TEST(WakeUp, WakesAgainOnceItHasWoken) {
  EventLoop loop("test");
  int woken = 0;
  WakeUp* again = nullptr;
  WakeUp wake_up(&loop, [&] {
    if (++woken == 3) return loop.Stop();
    again->At(loop.Now());
  });
  again = &wake_up;
  wake_up.At(loop.Now());
  loop.Run();
  EXPECT_EQ(woken, 3);
}

}  // namespace
}  // namespace farandole::controller::rpc
