#include "controller/waits/crosswise.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::controller::waits {
namespace {

RankSet Set(std::initializer_list<int> ranks) {
  RankSet set;
  for (int r : ranks) set.Add(Rank(r));
  return set;
}

OpenWait Tensor(const std::string& name, std::initializer_list<int> ready, std::initializer_list<int> missing) {
  OpenWait wait;
  wait.name = name;
  wait.ready = Set(ready);
  wait.missing = Set(missing);
  return wait;
}

TEST(CrosswiseTest, OneThatSubmittedSomethingElseIsFound) {
  const std::vector<OpenWait> waits = {Tensor("A", {0, 1}, {2}), Tensor("B", {2}, {0, 1})};
  const RankSet found = FindCrosswise(waits, RankSet::All(3));
  EXPECT_TRUE(found == Set({0, 1, 2}));
  EXPECT_EQ(CrosswiseText(waits, found),
            "ranks 0 and 1 wait for `A`, which rank 2 has not submitted; "
            "rank 2 waits for `B`, which ranks 0 and 1 have not submitted");
}

TEST(CrosswiseTest, OneThatIsLateIsNot) {
  EXPECT_TRUE(FindCrosswise({Tensor("A", {0, 1}, {2})}, RankSet::All(3)).empty());
  // Rank 1 lacks nothing that rank 0 waits for, however different what they have submitted.
  EXPECT_TRUE(FindCrosswise({Tensor("A", {0, 1}, {2}), Tensor("B", {0}, {1, 2})}, RankSet::All(3)).empty());
}

TEST(CrosswiseTest, ARankWithSomethingThatOnlyLateOnesLackIsNotStuckNorAreThoseThatWaitForIt) {
  // Rank 2 is late with C; when it comes rank 1 goes on, and may submit A then.
  const std::vector<OpenWait> waits = {Tensor("A", {0}, {1}), Tensor("B", {1}, {0}), Tensor("C", {1}, {2})};
  EXPECT_TRUE(FindCrosswise(waits, RankSet::All(3)).empty());
}

TEST(CrosswiseTest, ThoseUnderWayAreNoCandidates) {
  const std::vector<OpenWait> waits = {Tensor("A", {0}, {1}), Tensor("B", {1}, {0})};
  EXPECT_TRUE(FindCrosswise(waits, Set({0})).empty());
  EXPECT_TRUE(FindCrosswise(waits, Set({0, 1})) == Set({0, 1}));
}

TEST(CrosswiseTest, ACycleOverProcessSetsIsFoundAndOthersAreLeftOut) {
  OpenWait late = Tensor("L", {4}, {5});
  const std::vector<OpenWait> waits = {Tensor("A", {0}, {1}), Tensor("B", {1}, {2}), Tensor("C", {2}, {0}), late};
  EXPECT_TRUE(FindCrosswise(waits, RankSet::All(6)) == Set({0, 1, 2}));
}

// Rank 1 is inside a begun batch of a and b that cannot be withdrawn. Rank 0 has submitted a of it and waits for that.
TEST(CrosswiseTest, OneThatLacksItselfIsFound) {
  std::vector<OpenWait> waits = {Tensor("a", {0, 1}, {0}), Tensor("b", {1}, {0})};
  waits[0].kind = WaitKind::kHeld;
  waits[1].kind = WaitKind::kEnter;
  const RankSet found = FindCrosswise(waits, RankSet::All(2));
  EXPECT_TRUE(found == Set({0, 1}));
  EXPECT_EQ(CrosswiseText(waits, found),
            "ranks 0 and 1 wait for `a`, held back by a batch, begun in the replay, that rank 0 has not entered; "
            "rank 1 waits for `b`, which rank 0 has not submitted");
}

TEST(CrosswiseTest, ALongChainTakesAsManyPassesAsAreAllowedAndThenFindsNothing) {
  // Each waits for the next one, the last one for somebody late: everyone drops out, the last one first.
  std::vector<OpenWait> waits;
  for (int r = 0; r < 200; ++r) waits.push_back(Tensor("t", {r}, {r + 1}));
  EXPECT_TRUE(FindCrosswise(waits, RankSet::All(201)).empty());
}

}  // namespace
}  // namespace farandole::controller::waits
