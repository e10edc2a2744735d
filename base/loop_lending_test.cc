#include "base/loop_lending.h"

#include <poll.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "base/scarcity_testing.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using Runner = LoopLending::Runner;

constexpr int64_t kLongMs = 20000;  // a bound for what must come

TimePoint In(int64_t ms) { return Clock::Monotonic().Now().PlusMs(ms); }

// Whether a thread that waits for events would go on.
bool Readable(const LoopLending& lending, int64_t timeout_ms) {
  pollfd polled{lending.wake_fd(), POLLIN, 0};
  return poll(&polled, 1, static_cast<int>(timeout_ms)) > 0;
}

class LoopLendingTest : public testing::Test {
 protected:
  struct Rest {
    int64_t least_ms = kLongMs;
    int64_t most_ms = 0;
  };
  // Lends the loop until its own thread rests, calls `then` as the borrower, and returns for how long the own thread
  // rests on. Of some rounds, since any step of a busy machine may take long.
  Rest RestAfter(const std::function<void()>& then, int rounds = 10) {
    Rest rest;
    for (int round = 0; round < rounds; ++round) {
      EXPECT_TRUE(lending_.Borrow());
      TimePoint up;
      std::thread own([&] {
        lending_.AwaitTurn();
        up = In(0);
      });
      // When it comes to rest, the borrower has to look again.
      if (lending_.BeginWait(Runner::kBorrower, In(kLongMs))) {
        EXPECT_TRUE(Readable(lending_, kLongMs));
      }
      lending_.EndWait(Runner::kBorrower);
      lending_.ClearWake();
      const TimePoint since = In(0);
      then();
      own.join();
      rest.least_ms = std::min(rest.least_ms, up.MsSince(since));
      rest.most_ms = std::max(rest.most_ms, up.MsSince(since));
      lending_.TakePosted();
    }
    return rest;
  }
  int64_t LeastRestMs(const std::function<void()>& then) { return RestAfter(then).least_ms; }

  LoopLending lending_;
};

TEST_F(LoopLendingTest, WhatIsPostedWakesWhoWaitsAndNobodyWhoIsBusy) {
  lending_.Post([] {});
  EXPECT_FALSE(Readable(lending_, 0)) << "the own thread looks before it waits";
  EXPECT_FALSE(lending_.idle());
  EXPECT_FALSE(lending_.BeginWait(Runner::kOwn, TimePoint::Infinite()));
  lending_.EndWait(Runner::kOwn);
  EXPECT_EQ(lending_.TakePosted().size(), 1u);
  EXPECT_TRUE(lending_.idle());

  EXPECT_TRUE(lending_.BeginWait(Runner::kOwn, TimePoint::Infinite()));
  lending_.Post([] {});
  EXPECT_TRUE(Readable(lending_, 0));
  lending_.ClearWake();
  lending_.Post([] {});
  EXPECT_FALSE(Readable(lending_, 0)) << "it was woken already";
}

TEST_F(LoopLendingTest, OneBorrowerAtATime) {
  EXPECT_TRUE(lending_.Borrow());
  EXPECT_FALSE(lending_.Borrow());
  lending_.GiveBack(TimePoint::Infinite());
  EXPECT_TRUE(lending_.Borrow());
  lending_.GiveBack(TimePoint::Infinite());
  lending_.Stop();
  EXPECT_FALSE(lending_.Borrow());
  lending_.Post([] {});
  EXPECT_TRUE(lending_.TakePosted().empty());
}

TEST_F(LoopLendingTest, TheBorrowerIsCalledByOthers) {
  const auto call = [this] { std::thread([this] { lending_.WakeBorrower(); }).join(); };
  ASSERT_TRUE(lending_.BeginWait(Runner::kOwn, TimePoint::Infinite()));
  call();
  EXPECT_FALSE(Readable(lending_, 0)) << "there is no borrower";

  ASSERT_TRUE(lending_.Borrow());
  lending_.WakeBorrower();
  EXPECT_TRUE(lending_.BeginWait(Runner::kBorrower, TimePoint::Infinite())) << "it knows what it does itself";
  call();
  EXPECT_TRUE(Readable(lending_, 0));
  lending_.ClearWake();
  call();
  EXPECT_FALSE(Readable(lending_, 0)) << "once is enough";
  lending_.EndWait(Runner::kBorrower);

  call();
  EXPECT_FALSE(Readable(lending_, 0)) << "it is busy";
  EXPECT_FALSE(lending_.BeginWait(Runner::kBorrower, TimePoint::Infinite())) << "but looks before it waits";
}

TEST_F(LoopLendingTest, ATimerWakesWhoWouldWaitForLonger) {
  ASSERT_TRUE(lending_.BeginWait(Runner::kOwn, TimePoint(1000)));
  ASSERT_TRUE(lending_.Borrow());
  ASSERT_TRUE(lending_.BeginWait(Runner::kBorrower, TimePoint(500)));
  lending_.WakeForTimer(TimePoint(500));
  EXPECT_FALSE(Readable(lending_, 0));
  lending_.WakeForTimer(TimePoint(499));
  EXPECT_TRUE(Readable(lending_, 0));
  lending_.EndWait(Runner::kBorrower);
  lending_.ClearWake();
  lending_.WakeForTimer(TimePoint(1));
  EXPECT_FALSE(Readable(lending_, 0)) << "the borrower is busy";
  lending_.GiveBack(TimePoint(1000));
  EXPECT_FALSE(Readable(lending_, 0));
  ASSERT_TRUE(lending_.Borrow());
  lending_.GiveBack(TimePoint(999));
  EXPECT_TRUE(Readable(lending_, 0)) << "its own thread would wait for longer";
}

TEST_F(LoopLendingTest, WhatTheBorrowerLeavesInTheQueueWakesTheOwnThread) {
  ASSERT_TRUE(lending_.BeginWait(Runner::kOwn, TimePoint::Infinite()));
  ASSERT_TRUE(lending_.Borrow());
  lending_.Post([] {});
  EXPECT_FALSE(Readable(lending_, 0)) << "the borrower is busy";
  lending_.GiveBack(TimePoint::Infinite());
  EXPECT_TRUE(Readable(lending_, 0));
}

// Both threads may wait for events then; neither may take the other's word of the end.
TEST_F(LoopLendingTest, StopEndsEveryWait) {
  ASSERT_TRUE(lending_.BeginWait(Runner::kOwn, TimePoint::Infinite()));
  ASSERT_TRUE(lending_.Borrow());
  ASSERT_TRUE(lending_.BeginWait(Runner::kBorrower, TimePoint::Infinite()));
  lending_.Stop();
  lending_.ClearWake();
  EXPECT_TRUE(Readable(lending_, 0));
  EXPECT_FALSE(lending_.BeginWait(Runner::kBorrower, TimePoint::Infinite()));
  EXPECT_FALSE(lending_.AwaitTurn());
}

TEST_F(LoopLendingTest, StopEndsTheRest) {
  const auto stop = [&] {
    lending_.Stop();
    lending_.GiveBack(TimePoint::Infinite());
  };
  EXPECT_LT(RestAfter(stop, 1).most_ms, kLongMs);
}

TEST_F(LoopLendingTest, TheOwnThreadRestsOnForAWhile) {
  const Rest rest = RestAfter([&] { lending_.GiveBack(TimePoint::Infinite()); });
  EXPECT_GE(rest.least_ms, LoopLending::kLingerMs);
  EXPECT_LT(rest.most_ms, kLongMs);
}

TEST_F(LoopLendingTest, WhoNeedsTheOwnThreadEndsItsRest) {
  constexpr int64_t kSoonMs = LoopLending::kLingerMs / 2;
  EXPECT_LT(LeastRestMs([&] { lending_.GiveBack(In(1)); }), kSoonMs);
  EXPECT_LT(LeastRestMs([&] {
              lending_.GiveBack(TimePoint::Infinite());
              lending_.WakeForTimer(In(1));
            }),
            kSoonMs);
  EXPECT_LT(LeastRestMs([&] {
              lending_.GiveBack(TimePoint::Infinite());
              lending_.Post([] {});
            }),
            kSoonMs);
  EXPECT_LT(LeastRestMs([&] {
              lending_.Post([] {});
              lending_.GiveBack(TimePoint::Infinite());
            }),
            kSoonMs);
  EXPECT_LT(LeastRestMs([&] {
              EXPECT_FALSE(lending_.Borrow());
              lending_.GiveBack(TimePoint::Infinite());
            }),
            kSoonMs);
}

TEST_F(LoopLendingTest, ALoopThatIsBorrowedAgainAndAgainLeavesItsThreadAtRest) {
  const Rest rest = RestAfter([&] {
    for (const TimePoint end = In(3 * LoopLending::kLingerMs); In(0) < end;) {
      lending_.GiveBack(TimePoint::Infinite());
      if (!lending_.Borrow()) break;
    }
    lending_.GiveBack(TimePoint::Infinite());
  });
  EXPECT_GE(rest.most_ms, 3 * LoopLending::kLingerMs);
}

TEST_F(LoopLendingTest, TheOwnThreadSleepsWhileItsLoopIsLentForLong) {
  rusage before{}, after{};
  ASSERT_TRUE(lending_.Borrow());
  std::thread own([&] {
    getrusage(RUSAGE_THREAD, &before);
    lending_.AwaitTurn();
    getrusage(RUSAGE_THREAD, &after);
  });
  for (const TimePoint end = In(20 * LoopLending::kLingerMs); In(0) < end;) {
    if (lending_.BeginWait(Runner::kBorrower, end)) Readable(lending_, end.MsSince(In(0)));
    lending_.EndWait(Runner::kBorrower);
    lending_.ClearWake();
  }
  lending_.GiveBack(TimePoint::Infinite());
  own.join();
  EXPECT_LE(after.ru_nvcsw - before.ru_nvcsw, 5);
}

TEST_F(LoopLendingTest, SaysThatItHasNoDescriptors) {
  NoDescriptors none;
  EXPECT_FALSE(LoopLending().valid());
}

// A loop whose only events are what is posted. A wake-up that is lost leaves a thread in poll().
class LentLoop {
 public:
  LentLoop() = default;
  ~LentLoop() { Stop(); }
  LentLoop(const LentLoop&) = delete;

  // As EventLoop::Drive; false also if nothing came for long.
  bool Drive(const std::function<bool()>& done) {
    if (!lending.Borrow()) return false;
    bool woken = true;
    while (woken && !done() && !lending.stopped()) woken = Turn(Runner::kBorrower, kLongMs);
    lending.GiveBack(TimePoint::Infinite());
    return woken;
  }
  void Stop() {
    lending.Stop();
    if (own_.joinable()) own_.join();
  }

  LoopLending lending;

 private:
  // False if it waited in vain.
  bool Turn(Runner runner, int64_t wait_ms) {
    const bool waits = lending.BeginWait(runner, TimePoint::Infinite());
    const bool woken = Readable(lending, waits ? wait_ms : 0);
    lending.EndWait(runner);
    absl::MutexLock lock(&run_mutex_);
    if (woken) lending.ClearWake();
    for (const LoopLending::Function& fn : lending.TakePosted()) fn();
    return woken || !waits;
  }

  absl::Mutex run_mutex_;
  std::thread own_{[this] {
    while (lending.AwaitTurn()) Turn(Runner::kOwn, -1);
  }};
};

// Threads that post and wait for what they have posted, while others borrow the loop now and then.
TEST(LoopLendingStressTest, WhatIsPostedIsRun) {
  constexpr int kPosters = 3;
  constexpr int kRounds = 3000;
  LentLoop loop;
  std::atomic<int> posting{kPosters};
  std::vector<std::thread> threads;
  for (int t = 0; t < kPosters; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < kRounds && !testing::Test::HasFailure(); ++round) {
        std::promise<void> ran;
        loop.lending.Post([&] { ran.set_value(); });
        std::future<void> waited = ran.get_future();
        if (waited.wait_for(std::chrono::milliseconds(kLongMs)) != std::future_status::ready) {
          // It may still come, and would find nothing.
          ADD_FAILURE() << "lost after " << round;
          waited.wait();
        }
        if (round % 100 == t) sched_yield();
      }
      --posting;
      loop.lending.WakeBorrower();
    });
  }
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      for (int drive = 1; posting > 0; ++drive) {
        int turns = drive % 20;
        loop.Drive([&] { return posting == 0 || --turns < 0; });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// What the borrower waits for is a count that others raise, without posting anything.
TEST(LoopLendingStressTest, NoCallOfTheBorrowerIsLost) {
  constexpr int kCallers = 3;
  constexpr int kCalls = 20000;
  LentLoop loop;
  std::atomic<int> calls{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < kCallers; ++t) {
    callers.emplace_back([&] {
      for (int i = 0; i < kCalls; ++i) {
        ++calls;
        loop.lending.WakeBorrower();
      }
    });
  }
  for (int seen = 0; seen < kCallers * kCalls; seen = calls) {
    // Each time it may find the own thread waiting for events, too, which then takes wake-ups that are not for it.
    ASSERT_TRUE(loop.Drive([&] { return calls != seen; })) << "lost after " << seen;
  }
  for (std::thread& caller : callers) caller.join();
}

// What the own thread does with its last event may be what the borrower waits for.
TEST(LoopLendingStressTest, WhatTheOwnThreadHandlesIsSeen) {
  LentLoop loop;
  for (int round = 0; round < 2000; ++round) {
    std::atomic<bool> ran{false};
    std::promise<void> begun;
    std::thread poster([&] {
      begun.get_future().wait();
      loop.lending.Post([&] { ran = true; });
    });
    begun.set_value();
    ASSERT_TRUE(loop.Drive([&] { return ran.load(); })) << "lost in round " << round;
    poster.join();
  }
}

TEST(LoopLendingStressTest, StopEndsEveryWait) {
  for (int round = 0; round < 300; ++round) {
    LentLoop loop;
    std::promise<void> lent;
    std::thread stopper([&] {
      lent.get_future().wait();
      if (round % 2 == 0) sched_yield();
      loop.lending.Stop();
    });
    bool first = true;
    EXPECT_TRUE(loop.Drive([&] {
      if (std::exchange(first, false)) lent.set_value();
      return false;
    })) << "round "
        << round;
    stopper.join();
    loop.Stop();
  }
}

}  // namespace
}  // namespace farandole
