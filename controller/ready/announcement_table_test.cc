#include "controller/ready/announcement_table.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::controller::ready {
namespace {

using ::testing::ElementsAre;

const TimePoint kNow(0);

Request Tensor(const std::string& name, std::vector<int64_t> shape = {4}, OpKind op = OpKind::kAllreduce,
               uint32_t set = 0) {
  Request request;
  request.name = name;
  request.signature.op = op;
  request.signature.dtype = DataType::kFloat32;
  request.signature.shape = std::move(shape);
  request.signature.process_set = set;
  return request;
}

class AnnouncementTableTest : public ::testing::Test {
 protected:
  AnnouncementTable::Entry* Announce(std::vector<int> who, const Request& request, int64_t ms = 0) {
    std::vector<Rank> ranks;
    for (int rank : who) ranks.push_back(Rank(rank));
    return table_.Announce(*sets_.Find(request.signature.process_set), ranks, request, nullptr, kNow.PlusMs(ms));
  }

  ProcessSets sets_{3};
  AnnouncementTable table_{3};
};

TEST_F(AnnouncementTableTest, NobodyCountsTwice) {
  EXPECT_EQ(Announce({2}, Tensor("x"))->announced.count(), 1);
  EXPECT_EQ(Announce({2}, Tensor("x")), nullptr);
  EXPECT_EQ(Announce({0, 1, 2}, Tensor("x"))->announced.count(), 3);
  EXPECT_EQ(table_.OpenCount(Rank(2)), 1u);
  table_.Erase(0, "x");
  EXPECT_EQ(table_.OpenCount(Rank(0)), 0u);
  EXPECT_TRUE(table_.empty());
}

TEST_F(AnnouncementTableTest, WhatIsReadyDoesNotChange) {
  Announce({0}, Tensor("x"))->ready = true;
  EXPECT_EQ(Announce({1}, Tensor("x")), nullptr);
}

TEST_F(AnnouncementTableTest, FirstDimensionsAreByPositionNotByArrival) {
  sets_.Add({Rank(0), Rank(2)});
  Announce({2}, Tensor("g", {7, 2}, OpKind::kAllgather, 1));
  EXPECT_THAT(Announce({0}, Tensor("g", {5, 2}, OpKind::kAllgather, 1))->first_dims, ElementsAre(5, 7));
}

TEST_F(AnnouncementTableTest, KnownFirstDimensionsAreThoseOfEachMember) {
  const std::vector<int64_t> known = {4, 5, 6};
  auto* entry = table_.Announce(*sets_.Find(0), std::vector<Rank>{Rank(0), Rank(2)},
                                Tensor("g", {4, 2}, OpKind::kAllgather), &known, kNow);
  EXPECT_THAT(entry->first_dims, ElementsAre(4, 0, 6));
}

TEST_F(AnnouncementTableTest, OfAnAlltoallItKeepsWhoCannotTakePart) {
  Announce({0}, Tensor("a", {3}, OpKind::kAlltoall));
  Request mine = Tensor("a", {4}, OpKind::kAlltoall);
  mine.signature.splits = {4, 0, 0};
  Announce({2}, mine);
  auto* entry = Announce({1}, Tensor("a", {4}, OpKind::kAlltoall));
  EXPECT_TRUE(entry->first_dims.empty()) << "members tell each other how much they send";
  ASSERT_EQ(entry->impossible.size(), 1u);
  EXPECT_EQ(entry->impossible[0].first, Rank(1));
}

TEST_F(AnnouncementTableTest, RetainTakesBackWhatIsNotListedUnlessItIsReady) {
  Announce({0}, Tensor("ready"))->ready = true;
  Announce({0}, Tensor("kept"));
  Announce({0}, Tensor("dropped"));
  table_.Retain(Rank(0), {Tensor("kept")});
  EXPECT_EQ(table_.OpenCount(Rank(0)), 2u);
  EXPECT_NE(table_.Find(0, "ready"), nullptr);
  EXPECT_EQ(table_.Find(0, "dropped"), nullptr);
}

TEST_F(AnnouncementTableTest, ATakenBackSignatureIsNotTheCommonOneAnyMore) {
  Announce({0}, Tensor("x", {9}));
  Announce({1}, Tensor("x", {4}));
  table_.Retain(Rank(0), {});
  auto* entry = Announce({0, 2}, Tensor("x", {4}));
  EXPECT_TRUE(entry->deviations.empty());
  EXPECT_THAT(entry->common.shape, ElementsAre(4));
}

TEST_F(AnnouncementTableTest, ADeviatingRankMayComeBackWithTheCommonSignature) {
  Announce({0}, Tensor("x", {4}));
  EXPECT_EQ(Announce({1}, Tensor("x", {9}))->deviations.size(), 1u);
  table_.Retain(Rank(1), {});
  EXPECT_TRUE(Announce({1}, Tensor("x", {4}))->deviations.empty());
}

TEST_F(AnnouncementTableTest, RanksThatSayTheSameShareTheirSignature) {
  Announce({0}, Tensor("x", {4}));
  const auto* entry = Announce({1, 2}, Tensor("x", {9}));
  ASSERT_EQ(entry->deviations.size(), 2u);
  EXPECT_EQ(entry->deviations[0].signature, entry->deviations[1].signature);
}

TEST_F(AnnouncementTableTest, WhatIsTakenBackOrErasedTakesNoRoom) {
  Announce({0}, Tensor("x", {4}));
  const size_t before = table_.bytes();
  EXPECT_GT(before, 0u);
  for (int session = 0; session < 2; ++session) {
    Announce({1, 2}, Tensor("x", {9}));
    EXPECT_GT(table_.bytes(), before);
    table_.Retain(Rank(1), {});
    table_.Retain(Rank(2), {});
    EXPECT_EQ(table_.bytes(), before);
  }
  table_.Retain(Rank(0), {});
  EXPECT_EQ(table_.bytes(), 0u);
  Announce({0}, Tensor("a", {3}, OpKind::kAlltoall));
  const size_t alone = table_.bytes();
  Announce({1}, Tensor("a", {4}, OpKind::kAlltoall));
  EXPECT_GT(table_.bytes(), alone) << "the text of what is wrong";
  table_.Retain(Rank(1), {});
  EXPECT_EQ(table_.bytes(), alone);
  table_.Erase(0, "a");
  EXPECT_EQ(table_.bytes(), 0u);
}

TEST(AnnouncementTableBoundTest, OneMemberOfALargeJobDoesNotTakeAllMemory) {
  constexpr int kSize = 65536;
  const ProcessSets sets(kSize);
  AnnouncementTable table(kSize);
  const std::vector<Rank> who = {Rank(kSize - 1)};
  int taken = 0;
  for (; taken < 65000; ++taken) {
    const Request request = Tensor(std::to_string(taken), {1, 2}, OpKind::kAllgather);
    if (table.Announce(*sets.Find(0), who, request, nullptr, kNow) == nullptr) break;
  }
  EXPECT_TRUE(table.full());
  EXPECT_GT(taken, 2000);
  EXPECT_LT(taken, 3000);
  EXPECT_LE(table.bytes(), table.bytes_max() + kSize * sizeof(int64_t));
  table.Clear();
  EXPECT_FALSE(table.full());
  EXPECT_EQ(table.bytes(), 0u);
}

TEST_F(AnnouncementTableTest, DimensionsThatADeviatingRankBringsTakeRoom) {
  Announce({0}, Tensor("x"));
  const size_t before = table_.bytes();
  Announce({1}, Tensor("x", {4}, OpKind::kBroadcast));
  const size_t with_another = table_.bytes() - before;
  Announce({2}, Tensor("x", {4}, OpKind::kAllgather));
  EXPECT_EQ(table_.bytes(), before + 2 * with_another + 3 * sizeof(int64_t));
}

TEST_F(AnnouncementTableTest, TheGreatestPriorityCounts) {
  Request urgent = Tensor("x");
  urgent.signature.priority = 3;
  Announce({0}, Tensor("x"));
  EXPECT_TRUE(Announce({1}, urgent)->deviations.empty());
  EXPECT_EQ(Announce({2}, Tensor("x"))->common.priority, 3);
}

TEST_F(AnnouncementTableTest, AbandonGroupsNamesByThoseWhoWait) {
  sets_.Add({Rank(0), Rank(1)});
  sets_.Add({Rank(1), Rank(2)});
  Announce({0, 1}, Tensor("a"));
  Announce({0, 1}, Tensor("b"));
  Announce({2}, Tensor("own"));
  Announce({1, 2}, Tensor("c"));
  Announce({1}, Tensor("d", {4}, OpKind::kAllreduce, 2));
  Announce({1}, Tensor("goes on", {4}, OpKind::kAllreduce, 1));
  const auto abandoned = table_.Abandon(Rank(2));
  ASSERT_EQ(abandoned.size(), 3u);
  EXPECT_THAT(abandoned[0].names, ElementsAre("a", "b"));
  EXPECT_THAT(abandoned[0].ranks.ToVector(), ElementsAre(Rank(0), Rank(1)));
  EXPECT_THAT(abandoned[1].names, ElementsAre("c"));
  EXPECT_THAT(abandoned[2].names, ElementsAre("d"));
  EXPECT_EQ(abandoned[2].process_set, 2u);
  EXPECT_EQ(table_.OpenCount(Rank(1)), 1u) << "the process set that rank 2 is not in";
  EXPECT_EQ(table_.FirstOf(1), "goes on");
}

TEST_F(AnnouncementTableTest, WaitsNameWhoIsMissingOldestFirst) {
  Announce({1}, Tensor("late"), 10);
  Announce({2}, Tensor("later"), 20);
  RankSet joined;
  joined.Add(Rank(2));
  const auto waits = table_.Waits(joined, 1);
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0].name, "late");
  EXPECT_TRUE(waits[0].since == kNow.PlusMs(10));
  EXPECT_THAT(waits[0].missing.ToVector(), ElementsAre(Rank(0)));
}

TEST_F(AnnouncementTableTest, EntriesMayBeErasedWhileWalking) {
  Announce({1}, Tensor("a"));
  Announce({1}, Tensor("b"));
  Announce({1}, Tensor("c"))->ready = true;
  std::vector<std::string> seen;
  table_.ForEachWaiting([&](const std::string& name, AnnouncementTable::Entry*) {
    seen.push_back(name);
    table_.Erase(0, "b");
  });
  EXPECT_THAT(seen, ElementsAre("a"));
}

}  // namespace
}  // namespace farandole::controller::ready
