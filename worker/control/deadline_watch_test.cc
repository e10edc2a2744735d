#include "worker/control/deadline_watch.h"

#include <atomic>
#include <future>
#include <thread>

#include "gtest/gtest.h"
#include "worker/os/event_count.h"

namespace farandole::worker::control {
namespace {

constexpr int kLongMs = 20000;  // a bound for what must come

class DeadlineWatchTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(loop_.Start().ok()); }
  ~DeadlineWatchTest() override { loop_.Join(); }

  // Until it has looked so often.
  bool Looked(uint32_t times) {
    for (uint32_t seen = looks_.Value(); seen < times; seen = looks_.Value()) {
      if (!looks_.WaitPast(seen, kLongMs)) return false;
    }
    return true;
  }
  TimePoint In(int64_t ms) const { return loop_.Now().PlusMs(ms); }

  EventLoop loop_{"test-ctl"};
  os::EventCount looks_;
  std::atomic<int64_t> next_ns_{TimePoint::Infinite().ns()};
  DeadlineWatch watch_{&loop_, [this] {
                         const TimePoint next(next_ns_.load());
                         looks_.Advance();
                         return next;
                       }};
};

TEST_F(DeadlineWatchTest, FindsOutWhenToLookAndLooksThen) {
  const TimePoint deadline = In(20);
  next_ns_ = deadline.ns();
  watch_.Watch(deadline);
  ASSERT_TRUE(Looked(1));
  next_ns_ = TimePoint::Infinite().ns();
  ASSERT_TRUE(Looked(2));
  EXPECT_LE(deadline, loop_.Now());
}

TEST_F(DeadlineWatchTest, ADeadlineThatComesNearerIsLookedAtInTime) {
  next_ns_ = In(10 * kLongMs).ns();
  watch_.Watch(TimePoint(next_ns_));
  ASSERT_TRUE(Looked(1));
  next_ns_ = In(5).ns();
  watch_.Watch(TimePoint(next_ns_));
  ASSERT_TRUE(Looked(2));
  next_ns_ = TimePoint::Infinite().ns();
  EXPECT_TRUE(Looked(3));
}

TEST_F(DeadlineWatchTest, ADeadlineThatMovesBackCostsNothing) {
  next_ns_ = In(10 * kLongMs).ns();
  watch_.Watch(TimePoint(next_ns_));
  ASSERT_TRUE(Looked(1));
  for (int i = 1; i < 1000; ++i) watch_.Watch(In(20 * kLongMs));
  watch_.Watch(TimePoint::Infinite());
  loop_.RunHere([] {});
  std::promise<void> later;
  loop_.Post([&] { later.set_value(); });
  later.get_future().wait();
  EXPECT_EQ(looks_.Value(), 1u);
}

// The look may already have found out what it returns.
TEST_F(DeadlineWatchTest, WhatIsAskedWhileItLooksIsNotLost) {
  std::promise<void> asked;
  std::atomic<int> looks{0};
  DeadlineWatch* self = nullptr;
  DeadlineWatch watch(&loop_, [&] {
    if (looks++ == 0) {
      std::thread([&] { self->Watch(In(1)); }).join();
    } else {
      asked.set_value();
    }
    return TimePoint::Infinite();
  });
  self = &watch;
  watch.Watch(In(0));
  EXPECT_EQ(asked.get_future().wait_for(std::chrono::milliseconds(kLongMs)), std::future_status::ready);
  loop_.Join();
}

}  // namespace
}  // namespace farandole::worker::control
