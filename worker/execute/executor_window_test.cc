// The executor over communicators whose collectives last when Start has returned, with a window of two in host memory
// and three on an accelerator.
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collective/communicator_testing.h"
#include "worker/collective/fake_device_testing.h"
#include "worker/execute/executor.h"
#include "worker/execute/executor_testing.h"

namespace farandole::worker::execute {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// An alltoall, which asks for numbers first, and an allreduce.
session::Work AlltoallWork(uint64_t index) {
  session::Work work = BatchWork(index);
  Signature alltoall;
  alltoall.op = OpKind::kAlltoall;
  alltoall.dtype = DataType::kFloat32;
  alltoall.shape = {2};
  static float* const rows = new float[2]{1, 2};
  work.operations.insert(work.operations.begin(),
                         std::make_shared<session::Operation>(Request{"a", alltoall}, rows, nullptr));
  return work;
}

class ExecutorWindowTest : public testing::Test {
 protected:
  void SetUp() override {
    executor_ = std::make_unique<Executor>(
        [this](const collective::Group& group, collective::Bootstrap*) {
          return std::make_unique<collective::FakeDevice>(&devices_[group.process_set]);
        },
        &owner_, session::Window{2, 3});
    executor_->SetGroup(collective::TestGroup(2, 0), nullptr);
    ASSERT_TRUE(executor_->Start().ok());
  }
  void TearDown() override {
    executor_->Abort("the test is over");
    executor_->Stop();
  }
  void Push(session::Work work) {
    executor_->Push(std::move(work));
    executor_->Wake();
  }
  void AddSet(uint64_t index, uint32_t id) {
    session::Work work = ItemWork(index, session::Work::Kind::kSetChanged);
    work.changed_set.id = id;
    work.changed_set.ranks = {Rank(0), Rank(1)};
    Push(std::move(work));
  }

  // By process set.
  std::array<collective::FakeDevice::Control, 8> devices_;
  NotingOwner owner_;
  std::unique_ptr<Executor> executor_;
};

TEST_F(ExecutorWindowTest, StartsAsManyAsTheWindowHasAndTellsThemInOrder) {
  for (uint64_t index : {1, 2, 3}) Push(BatchWork(index));
  EXPECT_THAT(devices_[0].Started(2), ElementsAre("1.0 allreduce", "2.0 allreduce"));
  devices_[0].Let(1);
  EXPECT_THAT(owner_.Calls(1), ElementsAre("done 1"));
  EXPECT_THAT(devices_[0].Started(3), ElementsAre("1.0 allreduce", "2.0 allreduce", "3.0 allreduce"));
  devices_[0].Let(2);
  EXPECT_THAT(owner_.Calls(3), ElementsAre("done 1", "done 2", "done 3"));
}

TEST_F(ExecutorWindowTest, EachKindOfMemoryHasAWindowOfItsOwn) {
  for (uint64_t index : {1, 2, 3, 4}) Push(BatchWork(index, 0, true));
  EXPECT_THAT(devices_[0].Started(3), ElementsAre("1.0 allreduce", "2.0 allreduce", "3.0 allreduce"));
  devices_[0].Let(1);
  for (uint64_t index : {5, 6, 7}) Push(BatchWork(index));
  EXPECT_EQ(devices_[0].Started(6).back(), "6.0 allreduce");
  EXPECT_THAT(owner_.Calls(1), ElementsAre("done 1"));
  devices_[0].Let(3);
  EXPECT_THAT(owner_.Calls(4), ElementsAre("done 1", "done 2", "done 3", "done 4"));
  EXPECT_EQ(devices_[0].Started(6).size(), 6u) << "two in host memory are under way";
  devices_[0].Let(1);
  EXPECT_EQ(devices_[0].Started(7).back(), "7.0 allreduce");
}

TEST_F(ExecutorWindowTest, WhatEndsEarlierThanOneOfItsSetIsToldAfterIt) {
  devices_[0].LetTwoBackwards();
  for (uint64_t index : {1, 2}) Push(BatchWork(index));
  EXPECT_THAT(owner_.Calls(2), ElementsAre("done 1", "done 2"));
}

TEST_F(ExecutorWindowTest, OtherItemsWaitUntilNothingIsUnderWay) {
  Push(BatchWork(1));
  Push(ItemWork(2, session::Work::Kind::kBarrierDone));
  Push(BatchWork(3));
  EXPECT_THAT(devices_[0].Started(1), ElementsAre("1.0 allreduce"));
  EXPECT_THAT(owner_.Calls(0), IsEmpty());
  devices_[0].Let(1);
  EXPECT_THAT(owner_.Calls(2), ElementsAre("done 1", "done 2"));
  devices_[0].Let(1);
  EXPECT_THAT(owner_.Calls(3), ElementsAre("done 1", "done 2", "done 3"));
}

TEST_F(ExecutorWindowTest, ABatchOfAnotherSetOvertakes) {
  AddSet(1, 7);
  Push(BatchWork(2, 0));
  Push(BatchWork(3, 7));
  EXPECT_THAT(devices_[7].Started(1), ElementsAre("3.0 allreduce"));
  devices_[7].Let(1);
  EXPECT_THAT(owner_.Calls(2), ElementsAre("done 1", "done 3"));
  devices_[0].Let(1);
  EXPECT_THAT(owner_.Calls(3), ElementsAre("done 1", "done 3", "done 2"));
}

// What comes next is started when the answer is there, in the issuer, whatever thread it came in.
TEST_F(ExecutorWindowTest, WhatDependsOnAnAnswerWaitsForIt) {
  Push(AlltoallWork(1));
  Push(BatchWork(2));
  EXPECT_THAT(devices_[0].Started(1), ElementsAre("1.0 alltoall"));
  devices_[0].Let(1);
  EXPECT_THAT(devices_[0].Started(4), ElementsAre("1.0 alltoall", "1.1 alltoall", "1.4 allreduce", "2.0 allreduce"));
  devices_[0].Let(2);
  EXPECT_THAT(owner_.Calls(1), ElementsAre("done 1"));
}

TEST_F(ExecutorWindowTest, AFailureEndsAllThatIsUnderWay) {
  AddSet(1, 7);
  Push(BatchWork(2, 0));
  Push(BatchWork(3, 7));
  Push(BatchWork(4, 0));
  devices_[7].Started(1);
  devices_[0].Started(1);
  devices_[0].Let(1, absl::UnavailableError("rank 1 is gone"));
  EXPECT_THAT(owner_.Calls(3), ElementsAre("done 1", "rank 1 is gone 2", "rank 1 is gone 3"));
  EXPECT_EQ(executor_->Abort("over").size(), 1u) << "the third was never begun";
  EXPECT_THAT(devices_[0].Started(1), ElementsAre("2.0 allreduce"));
}

// Whose result has no memory on this rank alone, so that the others have begun it.
TEST_F(ExecutorWindowTest, NothingIsStartedBehindWhatWasRefused) {
  session::Work refused = BatchWork(2);
  Signature allgather;
  allgather.op = OpKind::kAllgather;
  allgather.dtype = DataType::kFloat32;
  allgather.shape = {1};
  refused.operations = {std::make_shared<session::Operation>(Request{"a", allgather}, nullptr, nullptr)};
  refused.first_dims = {{1, INT64_MAX}};
  Push(BatchWork(1));
  devices_[0].Started(1);
  Push(std::move(refused));
  Push(BatchWork(3));
  const std::string why = "the result of allgather \"a\" is larger than the address space";
  EXPECT_THAT(owner_.Calls(2), ElementsAre(why + " 1", why + " 2"));
  EXPECT_THAT(devices_[0].Started(1), ElementsAre("1.0 allreduce"));
}

TEST_F(ExecutorWindowTest, AbortEndsAllThatIsUnderWay) {
  for (uint64_t index : {1, 2, 3}) Push(BatchWork(index));
  devices_[0].Started(2);
  const std::vector<session::Work> left = executor_->Abort("over");
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].instance.anchor, 3u);
  EXPECT_THAT(owner_.Calls(2), ElementsAre("over 1", "over 2"));
  executor_->Stop();
}

// Ends what it has started at once, or when it is looked at, by whoever looks.
class Polled final : public collective::Communicator {
 public:
  explicit Polled(bool at_once) : at_once_(at_once) {}
  std::string name() const override { return "polled"; }
  int position() const override { return 0; }
  int size() const override { return 2; }
  int64_t FusedBytesMax(DeviceKind memory, device::Device* device) override { return INT64_MAX; }
  void Start(const collective::Instance& instance, const collective::Collective& collective, const Enqueued& enqueued,
             Done done) override {
    started_.push_back(std::move(done));
    if (at_once_) Look();
  }
  void Withdraw(const collective::Instance& instance) override {}
  void Abort(const std::string& reason) override {}
  Rank SuspectRank() const override { return Rank(); }
  void Look() {
    for (const Done& done : std::exchange(started_, {})) done(absl::OkStatus());
  }

 private:
  const bool at_once_;
  std::vector<Done> started_;
};

// Looks once in each wait, and leaves the rest of it to the executor.
class ExecutorIdleTest : public testing::Test, public Executor::Idle {
 protected:
  bool Wait(const std::function<bool()>& woken) override {
    if (communicator_ != nullptr) communicator_->Look();
    return woken();
  }
  void Wake() override { ++wakes_; }

  // What the owner has heard when the item is over.
  std::vector<std::string> Execute(session::Work work, bool at_once) {
    NotingOwner owner;
    Executor executor(
        [this, at_once](const collective::Group&, collective::Bootstrap*) {
          auto made = std::make_unique<Polled>(at_once);
          communicator_ = made.get();
          return made;
        },
        &owner);
    executor.SetGroup(collective::TestGroup(2, 0), nullptr);
    executor.SetIdle(this);
    EXPECT_TRUE(executor.Start().ok());
    executor.Push(std::move(work));
    executor.Wake();
    std::vector<std::string> calls = owner.Calls(1);
    wakes_until_then_ = wakes_;
    return calls;
  }

  Polled* communicator_ = nullptr;
  std::atomic<int> wakes_{0};
  int wakes_until_then_ = 0;
};

TEST_F(ExecutorIdleTest, WhatEndsInTheIssuerWhileItWaitsIsNotOverlooked) {
  EXPECT_THAT(Execute(AlltoallWork(1), false), ElementsAre("done 1"));
}

TEST_F(ExecutorIdleTest, TheIssuerDoesNotWakeItself) {
  EXPECT_THAT(Execute(BatchWork(1), true), ElementsAre("done 1"));
  EXPECT_EQ(wakes_until_then_, 1) << "for the item";
}

// Batches of three sets, ended by three threads at random, and barriers: each set's come in order, and none is lost.
TEST_F(ExecutorWindowTest, ManyOfSeveralSets) {
  constexpr uint64_t kItems = 3000;
  std::mt19937 random(20261123);
  AddSet(1, 1);
  AddSet(2, 2);
  std::map<uint32_t, std::vector<std::string>> expected;
  std::vector<uint32_t> set_of(kItems + 3);
  for (uint64_t index = 3; index < kItems + 3; ++index) {
    const uint32_t set = random() % 4;
    set_of[index] = set;
    expected[set].push_back("done " + std::to_string(index));
    Push(set == 3 ? ItemWork(index, session::Work::Kind::kBarrierDone) : BatchWork(index, set));
  }
  for (uint32_t set : {0, 1, 2}) devices_[set].Let(static_cast<int>(expected[set].size()));
  const std::vector<std::string> calls = owner_.Calls(kItems + 2);
  ASSERT_EQ(calls.size(), kItems + 2);
  std::map<uint32_t, std::vector<std::string>> told;
  for (const std::string& call : calls) {
    const uint64_t index = std::stoull(call.substr(5));
    if (index >= 3) told[set_of[index]].push_back(call);
  }
  EXPECT_EQ(told, expected);
}

}  // namespace
}  // namespace farandole::worker::execute
