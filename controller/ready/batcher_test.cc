#include "controller/ready/batcher.h"

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::controller::ready {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const TimePoint kNow(0);

ReadyTensor Tensor(const std::string& name, int64_t floats, OpKind op = OpKind::kAllreduce, int32_t priority = 0) {
  ReadyTensor tensor;
  tensor.name = name;
  tensor.signature.op = op;
  tensor.signature.dtype = DataType::kFloat32;
  tensor.signature.shape = {floats};
  tensor.signature.priority = priority;
  return tensor;
}

void Add(Batcher* batcher, ReadyTensor tensor, uint32_t set = 0) { batcher->Add(set, {std::move(tensor)}, kNow); }

std::vector<std::string> Next(Batcher* batcher, TimePoint now = kNow, uint32_t held_set = 99) {
  uint32_t set;
  std::vector<ReadyTensor> batch;
  std::vector<std::string> names;
  if (!batcher->Next(
          now, [&](uint32_t s) { return s == held_set; }, &set, &batch))
    return names;
  for (const ReadyTensor& tensor : batch) names.push_back(tensor.name);
  return names;
}

TEST(BatcherTest, FillsUpToTheThresholdExactly) {
  Batcher b({32});
  for (const char* name : {"a", "b", "c"}) Add(&b, Tensor(name, 4));
  EXPECT_THAT(Next(&b), ElementsAre("a", "b"));
  EXPECT_THAT(Next(&b), ElementsAre("c"));
  EXPECT_THAT(Next(&b), IsEmpty());
  EXPECT_TRUE(b.empty());
}

TEST(BatcherTest, ThresholdZeroMeansEachAlone) {
  Batcher b({0});
  Add(&b, Tensor("empty", 0));
  Add(&b, Tensor("also empty", 0));
  EXPECT_THAT(Next(&b), ElementsAre("empty"));
  EXPECT_THAT(Next(&b), ElementsAre("also empty"));
}

TEST(BatcherTest, TheOldestGoesFirstWhateverItsKind) {
  Batcher b({1000});
  Add(&b, Tensor("g", 1, OpKind::kAllgather));
  Add(&b, Tensor("a", 1));
  Add(&b, Tensor("c", 1, OpKind::kBroadcast));
  Add(&b, Tensor("b", 1));
  EXPECT_THAT(Next(&b), ElementsAre("g"));
  EXPECT_THAT(Next(&b), ElementsAre("a", "b"));
  EXPECT_THAT(Next(&b), ElementsAre("c"));
}

TEST(BatcherTest, TheGreaterPriorityGoesFirst) {
  Batcher b({8});
  Add(&b, Tensor("low", 1));
  Add(&b, Tensor("g", 1, OpKind::kAllgather, 1));
  Add(&b, Tensor("high", 1, OpKind::kAllreduce, 2));
  Add(&b, Tensor("low too", 1));
  Add(&b, Tensor("high too", 1, OpKind::kAllreduce, 2));
  EXPECT_THAT(Next(&b), ElementsAre("high", "high too"));
  EXPECT_THAT(Next(&b), ElementsAre("g"));
  EXPECT_THAT(Next(&b), ElementsAre("low", "low too"));
}

// The device may be behind, and the script goes on when all of its step is out.
TEST(BatcherTest, OnAnAcceleratorMoreBatchesAreOut) {
  Batcher b({1000});
  ReadyTensor on_accelerator = Tensor("a", 1);
  on_accelerator.signature.device = DeviceKind::kAccelerator;
  for (uint64_t i = 1; i <= 17; ++i) {
    Add(&b, on_accelerator);
    EXPECT_THAT(Next(&b), ElementsAre("a"));
    b.Sent(0, i);
  }
  Add(&b, on_accelerator);
  Add(&b, on_accelerator);
  EXPECT_THAT(Next(&b), IsEmpty());
  b.Completed(0, 1);
  EXPECT_THAT(Next(&b), ElementsAre("a", "a"));
}

TEST(BatcherTest, HoldsAllreducesWhileMoreThanTwoBatchesAreOut) {
  Batcher b({1000});
  for (uint64_t i = 1; i <= 3; ++i) {
    Add(&b, Tensor("a", 1));
    EXPECT_THAT(Next(&b), ElementsAre("a"));
    b.Sent(0, i);
  }
  Add(&b, Tensor("x", 1));
  Add(&b, Tensor("y", 1));
  EXPECT_THAT(Next(&b), IsEmpty());
  Add(&b, Tensor("g", 1, OpKind::kAllgather));
  EXPECT_THAT(Next(&b), ElementsAre("g"));
  Add(&b, Tensor("z", 1), 1);
  EXPECT_THAT(Next(&b), ElementsAre("z")) << "each process set has a pace of its own";
  b.Completed(1, 3);
  EXPECT_THAT(Next(&b), IsEmpty());
  b.Completed(0, 1);
  EXPECT_THAT(Next(&b), ElementsAre("x", "y"));
}

TEST(BatcherTest, ProcessSetsAreNotFused) {
  Batcher b({1000});
  Add(&b, Tensor("a", 1));
  Add(&b, Tensor("b", 1), 1);
  Add(&b, Tensor("c", 1));
  EXPECT_THAT(Next(&b, kNow, 0), ElementsAre("b")) << "0 is held";
  EXPECT_THAT(Next(&b), ElementsAre("a", "c"));
}

TEST(BatcherTest, DevicesAndAdasumAreApart) {
  Batcher b({1000});
  ReadyTensor device = Tensor("device", 1);
  device.signature.device = DeviceKind::kAccelerator;
  ReadyTensor adasum = Tensor("adasum", 1);
  adasum.signature.reduce_op = ReduceOp::kAdasum;
  Add(&b, Tensor("host", 1));
  Add(&b, device);
  Add(&b, adasum);
  adasum.name = "adasum too";
  Add(&b, adasum);
  EXPECT_THAT(Next(&b), ElementsAre("host"));
  EXPECT_THAT(Next(&b), ElementsAre("device"));
  EXPECT_THAT(Next(&b), ElementsAre("adasum"));
  EXPECT_THAT(Next(&b), ElementsAre("adasum too"));
}

TEST(BatcherTest, AGroupIsNeverSplit) {
  Batcher b({8});
  Add(&b, Tensor("before", 1));
  b.Add(0, {Tensor("g1", 2), Tensor("g2", 2)}, kNow);
  Add(&b, Tensor("after", 1));
  EXPECT_THAT(Next(&b), ElementsAre("before")) << "the whole group does not fit";
  EXPECT_THAT(Next(&b), ElementsAre("g1", "g2")) << "although it is larger than the threshold";
  EXPECT_THAT(Next(&b), ElementsAre("after"));
}

TEST(BatcherTest, AGroupOfDifferentKindsGoesAlone) {
  Batcher b({1000});
  ReadyTensor other = Tensor("g2", 2);
  other.signature.dtype = DataType::kFloat64;
  Add(&b, Tensor("before", 1));
  b.Add(0, {Tensor("g1", 2), other}, kNow);
  Add(&b, Tensor("after", 1));
  EXPECT_THAT(Next(&b), ElementsAre("before", "after"));
  EXPECT_THAT(Next(&b), ElementsAre("g1", "g2"));
}

TEST(BatcherTest, AWindowIsAnUpperBound) {
  Batcher b({16, 5, false});
  Add(&b, Tensor("a", 1));
  EXPECT_EQ(b.NextDeadline(), kNow.PlusMs(5));
  EXPECT_THAT(Next(&b, kNow.PlusMs(4)), IsEmpty());
  Add(&b, Tensor("g", 1, OpKind::kAllgather));
  EXPECT_THAT(Next(&b, kNow.PlusMs(4)), ElementsAre("g")) << "what cannot be fused gains nothing from waiting";
  b.Add(0, {Tensor("b", 1)}, kNow.PlusMs(4));
  EXPECT_THAT(Next(&b, kNow.PlusMs(5)), ElementsAre("a", "b"));
  EXPECT_EQ(b.NextDeadline(), TimePoint::Infinite());
  Add(&b, Tensor("c", 4));
  EXPECT_THAT(Next(&b), ElementsAre("c")) << "the threshold is full";
}

TEST(BatcherTest, AWindowThatIsOverAsksForNothingMore) {
  Batcher b({16, 5, false});
  Add(&b, Tensor("a", 1));
  b.Tick(kNow.PlusMs(5));
  EXPECT_EQ(b.NextDeadline(), TimePoint::Infinite());
  EXPECT_THAT(Next(&b), ElementsAre("a"));
}

TEST(BatcherTest, DeterministicFusionDoesNotDependOnArrival) {
  const auto compose = [](unsigned seed, bool deterministic) {
    std::mt19937 random(seed);
    std::vector<std::vector<ReadyTensor>> units;
    for (int i = 0; i < 20; ++i) units.push_back({Tensor(std::string(1, 'a' + i), 1 + i % 3)});
    units.push_back({Tensor("g1", 1), Tensor("g2", 1)});
    std::shuffle(units.begin(), units.end(), random);
    Batcher b({24, 0, deterministic});
    std::set<std::vector<std::string>> batches;
    for (auto& unit : units) {
      b.Add(0, std::move(unit), kNow);
      if (random() % 3 != 0) continue;
      batches.insert(Next(&b));
    }
    for (auto batch = Next(&b); !batch.empty(); batch = Next(&b)) batches.insert(batch);
    batches.erase(std::vector<std::string>());
    return batches;
  };
  bool ever_differs = false;
  for (unsigned seed = 1; seed < 50; ++seed) {
    EXPECT_EQ(compose(seed, true), compose(0, true)) << seed;
    ever_differs = ever_differs || compose(seed, false) != compose(0, false);
  }
  EXPECT_EQ(compose(0, true).count({"g1", "g2"}), 1u);
  EXPECT_TRUE(ever_differs) << "otherwise this test shows nothing";
}

TEST(BatcherTest, ForgetsWhatWaits) {
  Batcher b({1000});
  Add(&b, Tensor("x", 1));
  Add(&b, Tensor("y", 1), 1);
  b.Drop([](uint32_t set) { return set == 0; });
  EXPECT_TRUE(b.Empty(0));
  EXPECT_FALSE(b.Empty(1));
  EXPECT_THAT(Next(&b), ElementsAre("y"));
  Add(&b, Tensor("x", 1));
  b.Clear();
  EXPECT_THAT(Next(&b), IsEmpty());
}

TEST(BatcherTest, KnowsWhatWaitsSinceBefore) {
  Batcher b({0});
  Add(&b, Tensor("old", 4), 1);
  const uint64_t next = b.next_unit();
  Add(&b, Tensor("first", 4, OpKind::kAllreduce, 1), 1);
  Add(&b, Tensor("other", 4), 2);
  const auto waits = [&](uint32_t set) { return b.AnyBefore(next, set); };
  EXPECT_TRUE(waits(1));
  EXPECT_FALSE(waits(2));
  EXPECT_THAT(Next(&b), ElementsAre("first"));
  EXPECT_TRUE(waits(1));
  EXPECT_THAT(Next(&b), ElementsAre("old"));
  EXPECT_FALSE(waits(1));
}

}  // namespace
}  // namespace farandole::controller::ready
