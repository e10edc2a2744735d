#include "controller/answered.h"

#include "gtest/gtest.h"

namespace farandole {
namespace {

Request Of(const std::string& name, uint32_t set, OpKind op = OpKind::kAllreduce) {
  Request request{name, {}};
  request.signature.op = op;
  request.signature.process_set = set;
  return request;
}

TEST(AnsweredTest, ANameCountsInItsProcessSetOnly) {
  Answered answered(Rank(1));
  answered.Add(Batch{2, {{"a", {}, 0, {}}}});
  answered.Add(ErrorItem{0, {"e"}, ErrorKind::kMismatch, "text"});
  answered.Add(BarrierDone{0, "b"});
  std::vector<Request> requests = {Of("a", 0), Of("a", 2), Of("e", 0), Of("b", 0, OpKind::kBarrier), Of("c", 0)};
  answered.Reduce(&requests);
  EXPECT_EQ(requests, (std::vector<Request>{Of("a", 0), Of("c", 0)}));
}

TEST(AnsweredTest, EnterAnswersNothingOfThoseWhoHadBegun) {
  const Enter enter{4, 1, 0, {Of("a", 0)}, {Rank(0)}};
  Answered starter(Rank(0)), other(Rank(1));
  starter.Add(enter);
  other.Add(enter);
  EXPECT_FALSE(starter.Contains(Of("a", 0)));
  EXPECT_TRUE(other.Contains(Of("a", 0)));
}

TEST(AnsweredTest, JoinsAndChangesOfSets) {
  Answered answered(Rank(0));
  EXPECT_FALSE(answered.Contains(Of("j", 0, OpKind::kJoin)));
  answered.Add(JoinDone{Rank(1)});
  answered.Add(SetChanged{"s", {}, false, false});
  EXPECT_TRUE(answered.Contains(Of("j", 0, OpKind::kJoin)));
  EXPECT_TRUE(answered.Contains(Of("s", 0, OpKind::kAddProcessSet)));
  EXPECT_FALSE(answered.Contains(Of("s", 0)));
}

}  // namespace
}  // namespace farandole
