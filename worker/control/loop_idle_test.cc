#include "worker/control/loop_idle.h"

#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "gtest/gtest.h"
#include "worker/collective/blocking_adapter.h"
#include "worker/collective/lone_communicator.h"
#include "worker/os/event_count.h"

namespace farandole::worker::control {
namespace {

constexpr int kLongMs = 20000;  // a bound for what must come

class LoopIdleTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(loop_.Start().ok()); }

  // Which thread runs the loop now.
  std::thread::id Runner() {
    std::promise<std::thread::id> ran;
    loop_.Post([&] { ran.set_value(std::this_thread::get_id()); });
    return ran.get_future().get();
  }
  // Until this thread does; the loop's own one may run what comes first.
  void AwaitRunner(std::thread::id thread) {
    const TimePoint end = loop_.Now().PlusMs(kLongMs);
    while (Runner() != thread) ASSERT_LT(loop_.Now().ns(), end.ns());
  }

  EventLoop loop_{"test-ctl"};
  LoopIdle idle_{&loop_};
};

TEST_F(LoopIdleTest, RunsTheLoopUntilItIsWoken) {
  std::atomic<bool> woken{false};
  std::thread idles([&] { EXPECT_TRUE(idle_.Wait([&] { return woken.load(); })); });
  AwaitRunner(idles.get_id());
  woken = true;
  idle_.Wake();
  idles.join();
}

TEST_F(LoopIdleTest, LeavesTheLoopAloneWhileTheScriptAloneBringsWork) {
  std::thread idles([&] {
    EXPECT_TRUE(idle_.Wait([] { return false; }));
    EXPECT_FALSE(idle_.Wait([] { return false; }));
  });
  AwaitRunner(idles.get_id());
  idle_.SetSilent(true);
  idles.join();
  EXPECT_NE(Runner(), std::this_thread::get_id());
}

TEST_F(LoopIdleTest, AStoppedLoopIsNoPlaceToWait) {
  loop_.Stop();
  EXPECT_FALSE(idle_.Wait([] { return false; }));
}

// Notes which thread executed.
class NotingOwner final : public execute::Executor::Owner {
 public:
  void OnDone(session::Work) override {
    by = std::this_thread::get_id();
    done.Advance();
  }
  void OnBroken(session::Work, const absl::Status&, Rank) override {}
  void OnWithdrawn(session::Work) override {}

  std::atomic<std::thread::id> by{};
  os::EventCount done;
};

// The purpose of all this: no switch of threads between an item that comes through the loop and its execution.
TEST_F(LoopIdleTest, WhatComesThroughTheLoopIsExecutedByTheThreadThatReadsIt) {
  NotingOwner owner;
  execute::Executor executor(
      [](const collective::Group&, collective::Bootstrap*) {
        return std::make_unique<collective::BlockingAdapter>(std::make_unique<collective::LoneCommunicator>());
      },
      &owner);
  executor.SetGroup(collective::Group(), nullptr);
  executor.SetIdle(&idle_);
  ASSERT_TRUE(executor.Start().ok());
  const TimePoint end = loop_.Now().PlusMs(kLongMs);
  std::atomic<std::thread::id> read_by{};
  do {
    ASSERT_LT(loop_.Now().ns(), end.ns());
    const uint32_t seen = owner.done.Value();
    loop_.Post([&] {
      read_by = std::this_thread::get_id();
      session::Work work;
      work.kind = session::Work::Kind::kBarrierDone;
      executor.Push(std::move(work));
      executor.Wake();
    });
    ASSERT_TRUE(owner.done.WaitPast(seen, kLongMs));
  } while (read_by.load() != owner.by.load());
  executor.Stop();
}

}  // namespace
}  // namespace farandole::worker::control
