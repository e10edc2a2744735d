#include "controller/replay/detector.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::controller::replay {
namespace {

Request Of(const std::string& name, int64_t rows = 4, OpKind op = OpKind::kAllreduce) {
  Request request{name, {}};
  request.signature.op = op;
  request.signature.shape = {rows};
  return request;
}

// "ab c" dispatches {a, b}, then {c}.
void Dispatch(const std::string& text, Detector* detector) {
  PeriodBatch batch;
  for (char c : text + " ") {
    if (c != ' ') {
      batch.requests.push_back(Of(std::string(1, c)));
    } else {
      detector->Dispatched(batch);
      batch.requests.clear();
    }
  }
}

// The period now, as Dispatch wants it; "" = none.
std::string Found(const Detector& detector, const BackOff& back_off = {}) {
  const auto found = detector.Find(back_off);
  if (!found) return "";
  EXPECT_EQ(found->digest, Detector::DigestOf(found->period));
  std::string text;
  for (const PeriodBatch& batch : found->period.batches) {
    if (!text.empty()) text += " ";
    for (const Request& request : batch.requests) text += request.name;
  }
  return text;
}

TEST(DetectorTest, ThreeInARow) {
  Detector detector;
  Dispatch("x y a b", &detector);
  EXPECT_EQ(Found(detector), "");
  Dispatch("a b", &detector);
  EXPECT_EQ(Found(detector), "");
  Dispatch("a", &detector);
  EXPECT_EQ(Found(detector), "");
  Dispatch("b", &detector);
  EXPECT_EQ(Found(detector), "a b");
}

TEST(DetectorTest, TheSmallestOne) {
  Detector detector;
  Dispatch("a a a", &detector);
  EXPECT_EQ(Found(detector), "a");
}

TEST(DetectorTest, BatchesAndOrderMayVaryAndTheFewestBatchesAreTaken) {
  Detector detector;
  Dispatch("a b c", &detector);
  Dispatch("ba c", &detector);
  Dispatch("c a b", &detector);
  EXPECT_EQ(Found(detector), "ba c");
}

TEST(DetectorTest, ATensorThatOccursTwiceInAPeriod) {
  Detector detector;
  for (int i = 0; i < 3; ++i) Dispatch("a b a c", &detector);
  EXPECT_EQ(Found(detector), "a b a c");
}

TEST(DetectorTest, AnotherSignatureIsAnotherTensor) {
  Detector detector;
  for (int64_t rows : {4, 4, 5, 4}) detector.Dispatched({0, {Of("a", rows)}});
  EXPECT_EQ(Found(detector), "");
  // Signatures that take turns make a period of two.
  for (int64_t rows : {5, 4, 5, 4}) detector.Dispatched({0, {Of("a", rows)}});
  const auto found = detector.Find({});
  ASSERT_TRUE(found);
  ASSERT_EQ(found->period.batches.size(), 2u);
  EXPECT_EQ(found->period.batches[0].requests[0].signature.shape[0], 5);
}

TEST(DetectorTest, ProcessSetsAreTold) {
  Detector detector;
  for (uint32_t set : {1, 2, 1, 2, 1, 2}) {
    Request request = Of("a");
    request.signature.process_set = set;
    detector.Dispatched({set, {request}});
  }
  const auto found = detector.Find({});
  ASSERT_TRUE(found);
  ASSERT_EQ(found->period.batches.size(), 2u);
  EXPECT_EQ(found->period.batches[0].process_set, 1u);
  EXPECT_EQ(found->period.batches[1].process_set, 2u);
}

TEST(DetectorTest, NothingGoesAcrossWhatIsNeverReplayed) {
  Detector detector;
  for (int i = 0; i < 5; ++i) {
    Dispatch("a", &detector);
    detector.Dispatched({0, {Of("g", 4, OpKind::kAllgather)}});
    EXPECT_EQ(Found(detector), "");
  }
  Dispatch("a a", &detector);
  detector.Interrupted();
  Dispatch("a a", &detector);
  EXPECT_EQ(Found(detector), "");
  Dispatch("a", &detector);
  EXPECT_EQ(Found(detector), "a");
}

TEST(DetectorTest, TheNeedMayBeHigherOrOne) {
  Detector detector;
  BackOff back_off;
  Dispatch("a b a b a b", &detector);
  const uint64_t digest = detector.Find(back_off)->digest;
  back_off.Broke(digest, 0);
  EXPECT_EQ(Found(detector, back_off), "");
  Dispatch("a b a b", &detector);
  EXPECT_EQ(Found(detector, back_off), "");
  Dispatch("a b", &detector);
  EXPECT_EQ(Found(detector, back_off), "a b");
  detector.Interrupted();
  back_off.Broke(digest, 100);
  Dispatch("x a", &detector);
  EXPECT_EQ(Found(detector, back_off), "");
  Dispatch("b", &detector);
  EXPECT_EQ(Found(detector, back_off), "a b");
  back_off.Withdrawn(digest);
  Dispatch("a b a b a b", &detector);
  EXPECT_EQ(Found(detector, back_off), "");
}

TEST(DetectorTest, ThePeriodHasABound) {
  constexpr int kMax = Detector::kPeriodBatchesMax;
  for (int length : {kMax, kMax + 1}) {
    Detector detector;
    for (int i = 0; i < 3 * length; ++i) detector.Dispatched({0, {Of("t" + std::to_string(i % length))}});
    EXPECT_EQ(detector.Find({}).has_value(), length == kMax) << length;
  }
}

}  // namespace
}  // namespace farandole::controller::replay
