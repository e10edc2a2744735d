#include "controller/log/answered.h"

#include "gtest/gtest.h"

namespace farandole::controller::log {
namespace {

Request Of(const std::string& name, uint32_t set, OpKind op = OpKind::kAllreduce) {
  Request request{name, {}};
  request.signature.op = op;
  request.signature.process_set = set;
  return request;
}

Answered For(int rank) {
  return Answered(Rank(rank), [](uint32_t set, uint32_t slot, uint64_t index) {
    if (set != 2 || slot != 7) return "";
    return index < 5 ? "slotted" : "next";
  });
}

TEST(AnsweredTest, ASlotStandsForTheNameThatWasInIt) {
  Answered answered = For(1);
  // The slot is given away by the same item, behind the one that still means the old content.
  answered.Add(Batch{2, {{"", {}, 7, {}}, {"next", {}, 7, {}}}}, 5);
  EXPECT_TRUE(answered.Contains(Of("slotted", 2)));
  EXPECT_TRUE(answered.Contains(Of("next", 2)));
}

TEST(AnsweredTest, AnErrorAnswersJoinsAndChangesOfSetsToo) {
  Answered answered = For(1);
  answered.Add(ErrorItem{0, {"j", "s"}, ErrorKind::kLeft, "text"}, 1);
  EXPECT_TRUE(answered.Contains(Of("j", 0, OpKind::kJoin)));
  EXPECT_TRUE(answered.Contains(Of("s", 0, OpKind::kAddProcessSet)));
  EXPECT_FALSE(answered.Contains(Of("t", 0, OpKind::kRemoveProcessSet)));
}

TEST(AnsweredTest, ANameCountsInItsProcessSetOnly) {
  Answered answered = For(1);
  answered.Add(Batch{2, {{"a", {}, 0, {}}}}, 1);
  answered.Add(ErrorItem{0, {"e"}, ErrorKind::kMismatch, "text"}, 1);
  answered.Add(BarrierDone{0, "b"}, 1);
  std::vector<Request> requests = {Of("a", 0), Of("a", 2), Of("e", 0), Of("b", 0, OpKind::kBarrier), Of("c", 0)};
  answered.Reduce(&requests);
  EXPECT_EQ(requests, (std::vector<Request>{Of("a", 0), Of("c", 0)}));
}

TEST(AnsweredTest, EnterAnswersNothingOfThoseWhoHadBegun) {
  const Enter enter{4, 1, 0, {Of("a", 0)}, {Rank(0)}};
  Answered starter = For(0), other = For(1);
  starter.Add(enter, 1);
  other.Add(enter, 1);
  EXPECT_FALSE(starter.Contains(Of("a", 0)));
  EXPECT_TRUE(other.Contains(Of("a", 0)));
}

TEST(AnsweredTest, JoinsAndChangesOfSets) {
  Answered answered = For(0);
  EXPECT_FALSE(answered.Contains(Of("j", 0, OpKind::kJoin)));
  answered.Add(JoinDone{Rank(1)}, 1);
  answered.Add(SetChanged{"s", {}, false, false}, 1);
  EXPECT_TRUE(answered.Contains(Of("j", 0, OpKind::kJoin)));
  EXPECT_TRUE(answered.Contains(Of("s", 0, OpKind::kAddProcessSet)));
  EXPECT_FALSE(answered.Contains(Of("s", 0)));
}

}  // namespace
}  // namespace farandole::controller::log
