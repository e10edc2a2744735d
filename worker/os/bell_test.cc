#include "worker/os/bell.h"

#include <poll.h>
#include <sched.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/scarcity_testing.h"
#include "gtest/gtest.h"

namespace farandole::worker::os {
namespace {

bool Readable(const Bell& bell, int timeout_ms = 0) {
  pollfd polled{bell.fd(), POLLIN, 0};
  return poll(&polled, 1, timeout_ms) > 0;
}

TEST(BellTest, RingsWhileAThreadWaitsOnly) {
  Bell bell;
  std::thread([&] { bell.Ring(); }).join();
  EXPECT_FALSE(Readable(bell));
  bell.Begin();
  bell.Ring();
  EXPECT_FALSE(Readable(bell)) << "its own ring";
  std::thread([&] { bell.Ring(); }).join();
  EXPECT_TRUE(Readable(bell));
  bell.End();
  EXPECT_FALSE(Readable(bell)) << "the next wait would not wait";
}

// What is waited for is a count here. A ring that is lost leaves the waiting thread in poll().
TEST(BellTest, NoRingIsLost) {
  constexpr int kRingers = 3;
  constexpr int kRings = 50000;
  Bell bell;
  std::atomic<int> rings{0};
  std::vector<std::thread> ringers;
  for (int i = 0; i < kRingers; ++i) {
    ringers.emplace_back([&] {
      for (int k = 0; k < kRings; ++k) {
        ++rings;
        bell.Ring();
      }
    });
  }
  int seen = 0;
  while (seen < kRingers * kRings) {
    bell.Begin();
    if (rings.load() == seen) ASSERT_TRUE(Readable(bell, 20000)) << "lost after " << seen;
    bell.End();
    seen = rings.load();
  }
  for (std::thread& ringer : ringers) ringer.join();
}

// A ring whose write comes behind the end of the wait: if nobody read it, all later waits would spin.
TEST(BellTest, NoRingStays) {
  constexpr int kRounds = 3000;
  Bell bell;
  std::atomic<int> round{0};
  std::atomic<int> rung{0};
  std::thread ringer([&] {
    for (int r = 1; r <= kRounds; ++r) {
      while (round.load() < r) sched_yield();
      bell.Ring();
      rung.store(r);
    }
  });
  for (int r = 1; r <= kRounds; ++r) {
    round.store(r);
    do {
      bell.Begin();
      bell.End();
    } while (rung.load() < r);
    // One wait more reads it.
    bell.Begin();
    bell.End();
    EXPECT_FALSE(Readable(bell)) << "round " << r;
    if (testing::Test::HasFailure()) break;
  }
  round.store(kRounds);
  ringer.join();
}

TEST(BellTest, SaysThatItHasNoDescriptor) {
  NoDescriptors none;
  EXPECT_FALSE(Bell().valid());
}

}  // namespace
}  // namespace farandole::worker::os
