#include "base/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include "base/scarcity_testing.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

// Runs `fn` on the loop and waits for it.
void OnLoop(EventLoop* loop, const std::function<void()>& fn) {
  std::promise<void> done;
  loop->Post([&] {
    fn();
    done.set_value();
  });
  done.get_future().wait();
}

TEST(EventLoopTest, RunsPostedFunctionsInOrder) {
  EventLoop loop("test");
  ASSERT_TRUE(loop.Start().ok());
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) loop.Post([&order, i] { order.push_back(i); });
  OnLoop(&loop, [] {});
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
}

TEST(EventLoopTest, InLoopOnlyWithinItsFunctions) {
  EventLoop loop("test");
  ASSERT_TRUE(loop.Start().ok());
  EXPECT_FALSE(loop.InLoop());
  OnLoop(&loop, [&] { EXPECT_TRUE(loop.InLoop()); });
  EXPECT_FALSE(loop.InLoop());
}

TEST(EventLoopTest, HandlersAndTimers) {
  EventLoop loop("test");
  ASSERT_TRUE(loop.Start().ok());
  PrivateFd event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  std::promise<void> handled, timed;
  loop.Post([&] {
    loop.AddFdFromLoop(event.get(), EPOLLIN, [&](uint32_t) {
      loop.RemoveFdFromLoop(event.get());
      handled.set_value();
    });
    const EventLoop::TimerId never = loop.AddTimerFromLoop(loop.Now().PlusMs(1), [] { FAIL() << "was cancelled"; });
    loop.CancelTimerFromLoop(never);
    loop.AddTimerFromLoop(loop.Now().PlusMs(2), [&] { timed.set_value(); });
  });
  const uint64_t one = 1;
  ASSERT_EQ(write(event.get(), &one, sizeof one), 8);
  handled.get_future().wait();
  timed.get_future().wait();
}

TEST(EventLoopTest, RunOrPostRunsHereWhenIdle) {
  EventLoop loop("test");  // not started: nobody else could run it
  bool ran = false;
  loop.RunOrPost([&] {
    EXPECT_TRUE(loop.InLoop());
    ran = true;
  });
  EXPECT_TRUE(ran);
  EXPECT_FALSE(loop.InLoop());
}

TEST(EventLoopTest, RunOrPostKeepsBehindWhatWasPosted) {
  EventLoop loop("test");
  std::vector<int> order;
  loop.Post([&] { order.push_back(1); });
  loop.RunOrPost([&] { order.push_back(2); });
  EXPECT_TRUE(order.empty());
  ASSERT_TRUE(loop.Start().ok());
  OnLoop(&loop, [] {});
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(EventLoopTest, RunOrPostInsideTheLoopRunsLater) {
  EventLoop loop("test");
  ASSERT_TRUE(loop.Start().ok());
  std::vector<int> order;
  OnLoop(&loop, [&] {
    loop.RunOrPost([&] { order.push_back(2); });
    order.push_back(1);
  });
  OnLoop(&loop, [] {});
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(EventLoopTest, ATimerSetFromOutsideWakesTheThread) {
  EventLoop loop("test");
  ASSERT_TRUE(loop.Start().ok());
  OnLoop(&loop, [] {});
  for (int i = 0; i < 20; ++i) {
    std::promise<void> timed;
    loop.RunOrPost([&] { loop.AddTimerFromLoop(loop.Now().PlusMs(1), [&] { timed.set_value(); }); });
    ASSERT_EQ(timed.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  }
}

TEST(EventLoopTest, RunHereWaitsForItsTurn) {
  EventLoop loop("test");
  ASSERT_TRUE(loop.Start().ok());
  bool first_done = false;
  std::promise<void> started;
  loop.Post([&] {
    started.set_value();
    std::this_thread::yield();
    first_done = true;
  });
  started.get_future().wait();
  loop.RunHere([&] {
    EXPECT_TRUE(first_done);
    EXPECT_TRUE(loop.InLoop());
  });
  EXPECT_FALSE(loop.InLoop());
}

TEST(EventLoopTest, OneThreadAtATime) {
  EventLoop loop("test");
  ASSERT_TRUE(loop.Start().ok());
  constexpr int kThreads = 4;
  constexpr int kRounds = 5000;
  int count = 0;  // unguarded: a second runner would lose additions
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kRounds; ++i) {
        if (i % 3 == 0) {
          loop.Post([&] { ++count; });
        } else if (i % 3 == 1) {
          loop.RunHere([&] { ++count; });
        } else {
          loop.RunOrPost([&] { ++count; });
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  OnLoop(&loop, [&] { EXPECT_EQ(count, kThreads * kRounds); });
}

TEST(EventLoopTest, NothingRunsAfterStop) {
  EventLoop loop("test");
  ASSERT_TRUE(loop.Start().ok());
  loop.Join();
  loop.Post([] { FAIL(); });
  loop.RunOrPost([] { FAIL(); });
}

TEST(EventLoopTest, ADriverRunsWhatIsPostedUntilItIsContent) {
  EventLoop loop("test");
  ASSERT_TRUE(loop.Start().ok());
  for (const int64_t look_ns : {0, 50000}) {
    std::atomic<bool> arrived{false};
    std::atomic<bool> by_driver{false};
    const std::thread::id self = std::this_thread::get_id();
    std::thread other;
    bool begun = false;
    EXPECT_TRUE(loop.Drive(
        [&] {
          if (!begun) {
            other = std::thread([&] {
              for (int i = 0; i < 200; ++i) OnLoop(&loop, [&] { by_driver = std::this_thread::get_id() == self; });
              loop.Post([&] { arrived = true; });
            });
          }
          begun = true;
          return arrived.load();
        },
        look_ns));
    other.join();
    // The loop's own thread may run what came first, then it rests.
    EXPECT_TRUE(by_driver);
  }
}

TEST(EventLoopTest, OneDriverAtATimeAndTheLoopRunsOnWithoutIt) {
  EventLoop loop("test");
  ASSERT_TRUE(loop.Start().ok());
  for (int round = 0; round < 50; ++round) {
    std::atomic<bool> refused{false}, done{false};
    std::thread other;
    EXPECT_TRUE(loop.Drive(
        [&] {
          if (!other.joinable()) {
            other = std::thread([&] {
              refused = !loop.Drive([] { return false; }, 0);
              loop.Post([&] { done = true; });
            });
          }
          return done.load();
        },
        0));
    other.join();
    EXPECT_TRUE(refused);
    // Nobody drives: the loop's own thread gets up for what is posted.
    OnLoop(&loop, [] {});
  }
}

TEST(EventLoopTest, ADriverStopsAtTheMoment) {
  EventLoop loop("test");
  ASSERT_TRUE(loop.Start().ok());
  for (const int64_t look_ns : {0, 50000}) {
    const TimePoint until = loop.Now().PlusMs(20);
    EXPECT_TRUE(loop.Drive([] { return false; }, look_ns, until));
    EXPECT_LE(until, loop.Now());
  }
}

TEST(EventLoopTest, WhatADriverLeavesInTheQueueIsRun) {
  EventLoop loop("test");
  ASSERT_TRUE(loop.Start().ok());
  for (int round = 0; round < 200; ++round) {
    std::promise<void> ran;
    EXPECT_TRUE(loop.Drive(
        [&] {
          loop.Post([&] { ran.set_value(); });
          return true;
        },
        0));
    ran.get_future().wait();
  }
}

TEST(EventLoopTest, ATimerThatADriverLeavesIsRun) {
  EventLoop loop("test");
  ASSERT_TRUE(loop.Start().ok());
  for (int round = 0; round < 50; ++round) {
    // Then its own thread goes to wait, for ever.
    OnLoop(&loop, [] {});
    std::promise<void> timed;
    bool set = false;
    EXPECT_TRUE(loop.Drive(
        [&] {
          if (set) return true;
          loop.Post([&] {
            set = true;
            loop.AddTimerFromLoop(loop.Now().PlusMs(1), [&] { timed.set_value(); });
          });
          return false;
        },
        0));
    ASSERT_EQ(timed.get_future().wait_for(std::chrono::seconds(5)), std::future_status::ready) << round;
  }
}

// How long a driver would have waited says nothing about the loop's own thread.
TEST(EventLoopTest, ATimerSetFromOutsideAfterADriveIsRun) {
  EventLoop loop("test");
  ASSERT_TRUE(loop.Start().ok());
  for (int round = 0; round < 50; ++round) {
    OnLoop(&loop, [] {});
    EXPECT_TRUE(loop.Drive([] { return false; }, 0, loop.Now().PlusMs(1)));
    std::promise<void> timed;
    loop.RunHere([&] { loop.AddTimerFromLoop(loop.Now().PlusMs(1), [&] { timed.set_value(); }); });
    ASSERT_EQ(timed.get_future().wait_for(std::chrono::seconds(5)), std::future_status::ready) << round;
  }
}

// Whoever runs the loop: its own thread, one that drives it, one that borrows it.
TEST(EventLoopTest, AfterwardsTheLoopIsFree) {
  EventLoop loop("test");
  ASSERT_TRUE(loop.Start().ok());
  std::promise<void> own;
  // RunHere would wait for itself inside a function of the loop.
  const auto end_later = [&loop](std::promise<void>* ended) {
    loop.Afterwards([&loop, ended] {
      EXPECT_FALSE(loop.InLoop());
      loop.RunHere([] {});
      ended->set_value();
    });
  };
  loop.Post([&] { end_later(&own); });
  own.get_future().wait();
  std::promise<void> here;
  loop.RunHere([&] {
    end_later(&here);
    EXPECT_TRUE(loop.InLoop());
  });
  EXPECT_EQ(here.get_future().wait_for(std::chrono::seconds(0)), std::future_status::ready) << "in this thread";
}

// What runs afterwards may block: it has the loop's own thread run others meanwhile.
TEST(EventLoopTest, ADriverServesNobodyWhileItRunsWhatComesAfterwards) {
  EventLoop loop("test");
  ASSERT_TRUE(loop.Start().ok());
  const std::thread::id self = std::this_thread::get_id();
  for (int round = 0; round < 50; ++round) {
    std::atomic<bool> over{false}, by_driver{false};
    loop.Post([&] {
      loop.Afterwards([&] {
        by_driver = std::this_thread::get_id() == self;
        if (by_driver) OnLoop(&loop, [&] { EXPECT_NE(std::this_thread::get_id(), self); });
        over = true;
        loop.WakeDriver();
      });
    });
    EXPECT_TRUE(loop.Drive([&] { return over.load(); }, 0));
    // In the first round its own thread may still be waiting for events, too.
    if (round > 0 && by_driver) return;
  }
  FAIL() << "the driver ran nothing";
}

TEST(EventLoopTest, ADriverThatIsWokenLooks) {
  EventLoop loop("test");
  ASSERT_TRUE(loop.Start().ok());
  for (int round = 0; round < 200; ++round) {
    std::atomic<bool> done{false};
    std::thread other([&] {
      done = true;
      loop.WakeDriver();
    });
    EXPECT_TRUE(loop.Drive([&] { return done.load(); }, 0));
    other.join();
  }
}

TEST(EventLoopTest, SaysWhatItCannotStart) {
  EventLoop threadless("test");
  {
    NoThreads none;
    EXPECT_EQ(threadless.Start().code(), absl::StatusCode::kResourceExhausted);
  }
  NoDescriptors none;
  EXPECT_EQ(EventLoop("test").Start().code(), absl::StatusCode::kResourceExhausted);
}

TEST(EventLoopTest, AStoppedLoopIsNotDriven) {
  EventLoop loop("test");
  ASSERT_TRUE(loop.Start().ok());
  loop.Stop();
  EXPECT_FALSE(loop.Drive([] { return true; }, 0));
}

// A queue in memory whose owner adds to it, as a device would.
class PolledQueue final : public EventLoop::Poller {
 public:
  explicit PolledQueue(EventLoop* loop) : loop_(loop) {
    OnLoop(loop_, [this] {
      loop_->AddFdFromLoop(event_.get(), EPOLLIN, [this](uint32_t) {
        uint64_t count;
        (void)!read(event_.get(), &count, sizeof count);
      });
      loop_->SetPollerFromLoop(this);
    });
  }
  ~PolledQueue() override {
    OnLoop(loop_, [this] {
      loop_->SetPollerFromLoop(nullptr);
      loop_->RemoveFdFromLoop(event_.get());
    });
  }

  void Add() {
    ++there_;
    const uint64_t one = 1;
    if (armed_.exchange(false)) (void)!write(event_.get(), &one, sizeof one);
  }
  int taken() const { return taken_; }
  bool AwaitTaken(int count) const {
    const TimePoint end = Clock::Monotonic().Now().PlusMs(20000);
    while (taken_ < count && Clock::Monotonic().Now() < end) std::this_thread::yield();
    return taken_ == count;
  }

 private:
  bool PollFromLoop() override {
    const int count = there_.exchange(0);
    taken_ += count;
    return count > 0;
  }
  void ArmFromLoop() override { armed_ = true; }

  EventLoop* const loop_;
  PrivateFd event_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::atomic<int> there_{0};
  std::atomic<int> taken_{0};
  std::atomic<bool> armed_{false};
};

TEST(EventLoopTest, APolledQueueWakesALoopThatSleeps) {
  EventLoop loop("test");
  ASSERT_TRUE(loop.Start().ok());
  PolledQueue queue(&loop);
  for (int i = 1; i <= 2000; ++i) {
    queue.Add();
    ASSERT_TRUE(queue.AwaitTaken(i)) << "what came while the loop went to sleep was lost";
  }
}

// The driver has taken what was to wake the loop's own thread, which sleeps on.
TEST(EventLoopTest, APolledQueueWakesALoopThatWasDrivenWhileItSlept) {
  EventLoop loop("test");
  ASSERT_TRUE(loop.Start().ok());
  PolledQueue queue(&loop);
  const TimePoint until = loop.Now().PlusMs(20000);
  for (int i = 1; i <= 400; i += 2) {
    std::thread adds([&] { queue.Add(); });
    EXPECT_TRUE(loop.Drive([&] { return queue.taken() == i; }, i % 4 == 1 ? 0 : int64_t{1} << 40, until));
    adds.join();
    queue.Add();
    ASSERT_TRUE(queue.AwaitTaken(i + 1)) << "what came when the loop was given back was lost";
  }
}

TEST(EventLoopTest, ADriverPollsAndStillHandlesDescriptorsTimersAndWhatIsPosted) {
  EventLoop loop("test");
  ASSERT_TRUE(loop.Start().ok());
  PolledQueue queue(&loop);
  PrivateFd event(eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
  std::atomic<int> others{0};
  loop.Post([&] {
    loop.AddFdFromLoop(event.get(), EPOLLIN, [&](uint32_t) {
      loop.RemoveFdFromLoop(event.get());
      ++others;
    });
    loop.AddTimerFromLoop(loop.Now().PlusMs(2), [&] { ++others; });
  });
  std::thread adds([&] {
    for (int i = 1; i <= 200; ++i) {
      queue.Add();
      loop.Post([&] { ++others; });
      EXPECT_TRUE(queue.AwaitTaken(i));
    }
  });
  // Looks all the time; with 0 it sleeps between.
  const TimePoint until = loop.Now().PlusMs(20000);
  EXPECT_TRUE(loop.Drive([&] { return queue.taken() == 100; }, int64_t{1} << 40, until));
  EXPECT_TRUE(loop.Drive([&] { return queue.taken() == 200 && others == 202; }, 0, until));
  adds.join();
  EXPECT_EQ(others, 202);
}

}  // namespace
}  // namespace farandole
