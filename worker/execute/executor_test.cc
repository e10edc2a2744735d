#include "worker/execute/executor.h"

#include <sched.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/scarcity_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collective/blocking_adapter.h"
#include "worker/collective/communicator_testing.h"
#include "worker/collective/lone_communicator.h"
#include "worker/execute/executor_testing.h"

namespace farandole::worker::execute {
namespace {

using testing::ElementsAre;

std::unique_ptr<collective::Communicator> Blocking(std::unique_ptr<collective::BlockingCommunicator> medium) {
  return std::make_unique<collective::BlockingAdapter>(std::move(medium));
}

// An allreduce in it waits for peers that come only when they are told to, or for Withdraw.
class Waiting final : public collective::LoneCommunicator {
 public:
  absl::Status Allreduce(const collective::Instance& instance, const arithmetic::Reduction&, void*, int64_t) override {
    entered.Advance();
    for (uint32_t seen = events_.Value();; seen = events_.Value()) {
      {
        absl::MutexLock lock(&mutex_);
        if (withdrawn_ == instance) return absl::CancelledError("withdrawn");
        if (complete_) return absl::OkStatus();
      }
      events_.WaitPast(seen, -1);
    }
  }
  void Withdraw(const collective::Instance& instance) override {
    {
      absl::MutexLock lock(&mutex_);
      withdrawn_ = instance;
    }
    events_.Advance();
  }
  void PeersCome() {
    {
      absl::MutexLock lock(&mutex_);
      complete_ = true;
    }
    events_.Advance();
  }

  os::EventCount entered;

 private:
  os::EventCount events_;
  absl::Mutex mutex_;
  collective::Instance withdrawn_ ABSL_GUARDED_BY(mutex_);
  bool complete_ ABSL_GUARDED_BY(mutex_) = false;
};

class ExecutorTest : public testing::Test {
 protected:
  void Start(Executor::Factory factory) {
    executor_ = std::make_unique<Executor>(std::move(factory), &owner_);
    executor_->SetGroup(collective::Group(), nullptr);
    ASSERT_TRUE(executor_->Start().ok());
  }
  void Push(session::Work work) {
    executor_->Push(std::move(work));
    executor_->Wake();
  }
  session::Work Batch(uint64_t index) { return BatchWork(index); }
  static session::Work Item(uint64_t index, session::Work::Kind kind) { return ItemWork(index, kind); }

  NotingOwner owner_;
  std::unique_ptr<Executor> executor_;
};

TEST_F(ExecutorTest, ExecutesInOrderAndBuildsOnce) {
  std::atomic<int> built{0};
  Start([&](const collective::Group&, collective::Bootstrap*) {
    ++built;
    return Blocking(std::make_unique<collective::LoneCommunicator>());
  });
  Push(Item(1, session::Work::Kind::kBarrierDone));
  Push(Batch(2));
  Push(Item(5, session::Work::Kind::kError));
  Push(Batch(6));
  EXPECT_THAT(owner_.Calls(4), ElementsAre("done 1", "done 2", "done 5", "done 6"));
  EXPECT_EQ(built, 1);
}

TEST_F(ExecutorTest, NothingIsExecutedAfterAFailure) {
  Start([](const collective::Group&, collective::Bootstrap*) { return absl::ResourceExhaustedError("no memory"); });
  Push(Batch(1));
  EXPECT_THAT(owner_.Calls(1), ElementsAre("no memory 1"));
  Push(Batch(2));
  Push(Item(3, session::Work::Kind::kBarrierDone));
  const std::vector<session::Work> left = executor_->Abort("over");
  ASSERT_EQ(left.size(), 2u);
  EXPECT_EQ(left[0].instance.anchor, 2u);
  EXPECT_THAT(owner_.Calls(1), ElementsAre("no memory 1"));
}

TEST_F(ExecutorTest, AbortWhileACommunicatorIsBuiltHandsBackItsBatch) {
  os::EventCount entered, go_on;
  Start([&](const collective::Group&, collective::Bootstrap*) {
    entered.Advance();
    while (go_on.Value() == 0) go_on.WaitPast(0, -1);
    return Blocking(std::make_unique<collective::LoneCommunicator>());
  });
  Push(Batch(1));
  Push(Batch(2));
  while (entered.Value() == 0) entered.WaitPast(0, -1);
  const std::vector<session::Work> left = executor_->Abort("over");
  ASSERT_EQ(left.size(), 2u);
  EXPECT_EQ(left[0].instance.anchor, 1u);
  go_on.Advance();
  executor_->Stop();
  EXPECT_TRUE(owner_.Calls(0).empty());
}

// Tells another thread that the executor is about to take its next item.
class AboutToTake final : public Executor::Owner {
 public:
  void OnDone(session::Work work) override { ++(work.kind == session::Work::Kind::kBatch ? ended : done); }
  void OnBroken(session::Work, const absl::Status&, Rank) override { ++ended; }
  void OnWithdrawn(session::Work) override {}

  std::atomic<int> done{0};
  std::atomic<int> ended{0};
};

// The abort may come between the moment that a batch is taken and that in which its communicator begins to be built.
TEST_F(ExecutorTest, NothingIsBuiltAfterAnAbort) {
  constexpr int kRounds = 500;
  for (int round = 0; round < kRounds && !testing::Test::HasFailure(); ++round) {
    AboutToTake owner;
    std::atomic<bool> aborted{false}, built_later{false};
    Executor executor(
        [&](const collective::Group&, collective::Bootstrap*) {
          built_later = aborted.load();
          return Blocking(std::make_unique<collective::LoneCommunicator>());
        },
        &owner);
    executor.SetGroup(collective::Group(), nullptr);
    executor.Push(Item(1, session::Work::Kind::kBarrierDone));
    executor.Push(Batch(2));
    ASSERT_TRUE(executor.Start().ok());
    while (owner.done == 0) {
    }
    for (int i = 0; i < round % 100; ++i) owner.done.load();
    const bool handed_back = !executor.Abort("over").empty();
    aborted = true;
    while (!handed_back && owner.ended == 0) sched_yield();
    executor.Stop();
    // What it hands back may already be about to be built.
    EXPECT_FALSE(built_later && !handed_back) << "round " << round;
  }
}

TEST_F(ExecutorTest, SaysWhatItCannotStart) {
  const auto lone = [](const collective::Group&, collective::Bootstrap*) {
    return Blocking(std::make_unique<collective::LoneCommunicator>());
  };
  executor_ = std::make_unique<Executor>(lone, &owner_);
  NoThreads none;
  EXPECT_EQ(executor_->Start().code(), absl::StatusCode::kResourceExhausted);
}

class ExecutorSetTest : public ExecutorTest {
 protected:
  // Of four ranks this is rank 2.
  void StartAmongFour() {
    executor_ = std::make_unique<Executor>(
        [this](const collective::Group& group, collective::Bootstrap*) {
          std::string text = "set " + std::to_string(group.process_set) + " key " + group.key + " position " +
                             std::to_string(group.position) + " of";
          for (const Member& member : group.members) text += " " + std::to_string(member.rank.value());
          built_.push_back(text);
          return Blocking(std::make_unique<Counted>(&alive_));
        },
        &owner_);
    executor_->SetGroup(collective::TestGroup(4, 2), nullptr);
    ASSERT_TRUE(executor_->Start().ok());
  }
  session::Work SetChanged(uint64_t index, uint32_t id, const std::vector<int>& ranks, bool removed = false) {
    session::Work work = Item(index, session::Work::Kind::kSetChanged);
    work.changed_set.id = id;
    for (int rank : ranks) work.changed_set.ranks.push_back(Rank(rank));
    work.removed = removed;
    return work;
  }
  session::Work BatchOf(uint64_t index, uint32_t process_set) {
    session::Work work = Batch(index);
    work.process_set = process_set;
    return work;
  }

  class Counted final : public collective::LoneCommunicator {
   public:
    explicit Counted(std::atomic<int>* alive) : alive_(alive) { ++*alive_; }
    ~Counted() override { --*alive_; }

   private:
    std::atomic<int>* const alive_;
  };

  std::vector<std::string> built_;
  std::atomic<int> alive_{0};
};

TEST_F(ExecutorSetTest, EachHasItsCommunicatorUntilItIsRemoved) {
  StartAmongFour();
  Push(BatchOf(1, 0));
  Push(SetChanged(2, 1, {1, 2}));
  Push(SetChanged(3, 2, {3, 2, 0}));
  Push(BatchOf(4, 2));
  Push(BatchOf(5, 1));
  Push(SetChanged(6, 2, {0, 2, 3}));  // existed
  Push(BatchOf(7, 2));
  EXPECT_EQ(owner_.Calls(7).back(), "done 7");
  EXPECT_EQ(alive_, 3);
  Push(SetChanged(8, 2, {}, true));
  EXPECT_EQ(owner_.Calls(8).back(), "done 8");
  EXPECT_EQ(alive_, 2);
  Push(SetChanged(9, 2, {2, 3}));
  Push(BatchOf(10, 2));
  EXPECT_EQ(owner_.Calls(10).back(), "done 10");
  EXPECT_THAT(built_, ElementsAre("set 0 key 0 position 2 of 0 1 2 3", "set 2 key 2.3 position 1 of 0 2 3",
                                  "set 1 key 1.2 position 1 of 1 2", "set 2 key 2.9 position 0 of 2 3"));
}

TEST_F(ExecutorSetTest, BatchesOfOthersAreADefect) {
  StartAmongFour();
  Push(SetChanged(1, 1, {0, 1}));
  Push(BatchOf(2, 1));
  EXPECT_THAT(owner_.Calls(2), ElementsAre("done 1", "this process is not in process set 1 2"));
}

class ExecutorWithdrawTest : public ExecutorTest {
 protected:
  ~ExecutorWithdrawTest() override { executor_.reset(); }

  void StartWaiting() {
    Start([this](const collective::Group&, collective::Bootstrap*) {
      auto communicator = std::make_unique<Waiting>();
      waiting_ = communicator.get();
      built_.Advance();
      return Blocking(std::move(communicator));
    });
  }
  // Until the first batch is inside its collective.
  void AwaitEntered() {
    while (built_.Value() == 0) built_.WaitPast(0, -1);
    while (waiting_->entered.Value() == 0) waiting_->entered.WaitPast(0, -1);
  }

  os::EventCount built_;
  Waiting* waiting_ = nullptr;
};

TEST_F(ExecutorWithdrawTest, TheRunningOneIsCancelledAndTheNextOneRuns) {
  StartWaiting();
  Push(Batch(1));
  AwaitEntered();
  executor_->Withdraw(0, collective::Instance{1, 1, 0});
  EXPECT_THAT(owner_.Calls(1), ElementsAre("withdrawn 1"));
  waiting_->PeersCome();
  Push(Batch(2));
  EXPECT_THAT(owner_.Calls(2), ElementsAre("withdrawn 1", "done 2"));
}

TEST_F(ExecutorWithdrawTest, AQueuedOneIsTakenOut) {
  StartWaiting();
  Push(Batch(1));
  Push(Batch(2));
  Push(Batch(3));
  AwaitEntered();
  executor_->Withdraw(0, collective::Instance{1, 2, 0});
  waiting_->PeersCome();
  EXPECT_THAT(owner_.Calls(3), ElementsAre("done 1", "withdrawn 2", "done 3"));
}

TEST_F(ExecutorWithdrawTest, OneThatIsNotThereIsIgnored) {
  StartWaiting();
  Push(Batch(1));
  AwaitEntered();
  executor_->Withdraw(0, collective::Instance{1, 1, 1});
  executor_->Withdraw(5, collective::Instance{1, 1, 0});
  waiting_->PeersCome();
  EXPECT_THAT(owner_.Calls(1), ElementsAre("done 1"));
  executor_->Withdraw(0, collective::Instance{1, 1, 0});
  Push(Batch(2));
  EXPECT_THAT(owner_.Calls(2), ElementsAre("done 1", "done 2"));
}

TEST_F(ExecutorWithdrawTest, WhileTheCommunicatorIsBuilt) {
  os::EventCount entered, go_on;
  Start([&](const collective::Group&, collective::Bootstrap*) {
    entered.Advance();
    while (go_on.Value() == 0) go_on.WaitPast(0, -1);
    return Blocking(std::make_unique<Waiting>());
  });
  Push(Batch(1));
  while (entered.Value() == 0) entered.WaitPast(0, -1);
  executor_->Withdraw(0, collective::Instance{1, 1, 0});
  go_on.Advance();
  EXPECT_THAT(owner_.Calls(1), ElementsAre("withdrawn 1"));
}

}  // namespace
}  // namespace farandole::worker::execute
