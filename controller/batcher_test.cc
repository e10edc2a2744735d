#include "controller/batcher.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

ReadyTensor Tensor(const std::string& name, int64_t floats, OpKind op = OpKind::kAllreduce) {
  ReadyTensor tensor;
  tensor.name = name;
  tensor.signature.op = op;
  tensor.signature.dtype = DataType::kFloat32;
  tensor.signature.shape = {floats};
  return tensor;
}

std::vector<std::string> Next(Batcher* batcher) {
  Batch batch;
  std::vector<Request> requests;
  std::vector<std::string> names;
  if (!batcher->Next(&batch, &requests)) return names;
  for (const BatchEntry& entry : batch.entries) names.push_back(entry.name);
  return names;
}

TEST(BatcherTest, FillsUpToTheThresholdExactly) {
  Batcher b(0, 32);
  for (const char* name : {"a", "b", "c"}) b.Add(Tensor(name, 4));
  EXPECT_THAT(Next(&b), ElementsAre("a", "b"));
  EXPECT_THAT(Next(&b), ElementsAre("c"));
  EXPECT_THAT(Next(&b), IsEmpty());
  EXPECT_TRUE(b.empty());
}

TEST(BatcherTest, ThresholdZeroMeansEachAlone) {
  Batcher b(0, 0);
  b.Add(Tensor("empty", 0));
  b.Add(Tensor("also empty", 0));
  EXPECT_THAT(Next(&b), ElementsAre("empty"));
  EXPECT_THAT(Next(&b), ElementsAre("also empty"));
}

TEST(BatcherTest, TheOldestGoesFirstWhateverItsKind) {
  Batcher b(0, 1000);
  b.Add(Tensor("g", 1, OpKind::kAllgather));
  b.Add(Tensor("a", 1));
  b.Add(Tensor("c", 1, OpKind::kBroadcast));
  b.Add(Tensor("b", 1));
  EXPECT_THAT(Next(&b), ElementsAre("g"));
  EXPECT_THAT(Next(&b), ElementsAre("a", "b"));
  EXPECT_THAT(Next(&b), ElementsAre("c"));
}

TEST(BatcherTest, HoldsAllreducesWhileMoreThanTwoBatchesAreOut) {
  Batcher b(0, 1000);
  for (uint64_t i = 1; i <= 3; ++i) {
    b.Add(Tensor("a", 1));
    EXPECT_THAT(Next(&b), ElementsAre("a"));
    b.Sent(i);
  }
  b.Add(Tensor("x", 1));
  b.Add(Tensor("y", 1));
  EXPECT_THAT(Next(&b), IsEmpty());
  b.Add(Tensor("g", 1, OpKind::kAllgather));
  EXPECT_THAT(Next(&b), ElementsAre("g"));
  b.Completed(1);
  EXPECT_THAT(Next(&b), ElementsAre("x", "y"));
}

TEST(BatcherTest, ClearForgetsWhatWaits) {
  Batcher b(0, 1000);
  b.Add(Tensor("x", 1));
  b.Clear();
  EXPECT_THAT(Next(&b), IsEmpty());
}

}  // namespace
}  // namespace farandole
