// The executor over communicators whose collectives last when Start has returned, with a window of two.
#include <array>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
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

class ExecutorWindowTest : public testing::Test {
 protected:
  void SetUp() override {
    executor_ = std::make_unique<Executor>(
        [this](const collective::Group& group, collective::Bootstrap*) {
          return std::make_unique<collective::FakeDevice>(&devices_[group.process_set]);
        },
        &owner_, 2);
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
  session::Work work = BatchWork(1);
  Signature alltoall;
  alltoall.op = OpKind::kAlltoall;
  alltoall.dtype = DataType::kFloat32;
  alltoall.shape = {2};
  float rows[2] = {1, 2};
  work.operations.insert(work.operations.begin(),
                         std::make_shared<session::Operation>(Request{"a", alltoall}, rows, nullptr));
  Push(std::move(work));
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

TEST_F(ExecutorWindowTest, AbortEndsAllThatIsUnderWay) {
  for (uint64_t index : {1, 2, 3}) Push(BatchWork(index));
  devices_[0].Started(2);
  const std::vector<session::Work> left = executor_->Abort("over");
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].instance.anchor, 3u);
  EXPECT_THAT(owner_.Calls(2), ElementsAre("over 1", "over 2"));
  executor_->Stop();
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
