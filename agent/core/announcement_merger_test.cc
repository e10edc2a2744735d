#include "agent/core/announcement_merger.h"

#include "gtest/gtest.h"

namespace farandole::agent::core {
namespace {

constexpr Incarnation kA{1}, kB{2}, kC{3};

Announce Of(const std::vector<std::string>& names) {
  Announce announce;
  for (const std::string& name : names) announce.requests.push_back(Request{name, {}});
  return announce;
}

TEST(AnnouncementMergerTest, WaitsForTheLastWorkerOfATensor) {
  AnnouncementMerger merger;
  EXPECT_FALSE(merger.Add(3, kA, Of({"x"})));
  EXPECT_FALSE(merger.Add(3, kC, Of({"x"})));
  EXPECT_TRUE(merger.Add(3, kB, Of({"x"})));
  const std::vector<FromWorker> out = merger.Take();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].worker_incarnation, kA);
  ASSERT_EQ(out[0].same.size(), 2u);
  EXPECT_EQ(out[0].same[0].worker_incarnation, kC);
  EXPECT_EQ(out[0].same[1].worker_incarnation, kB) << "the last one is behind";
  EXPECT_TRUE(merger.empty());
  EXPECT_FALSE(merger.Add(3, kA, Of({"x"}))) << "the next round begins anew";
}

TEST(AnnouncementMergerTest, EachKeepsItsOwnProgress) {
  AnnouncementMerger merger;
  Announce a = Of({"x"}), b = Of({"x"});
  a.received_through = 7;
  b.received_through = 9;
  b.completed_through = 8;
  merger.Add(2, kA, a);
  merger.Add(2, kB, b);
  const std::vector<FromWorker> out = merger.Take();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(std::get<Announce>(out[0].message).received_through, 7u);
  ASSERT_EQ(out[0].same.size(), 1u);
  EXPECT_EQ(out[0].same[0].received_through, 9u);
  EXPECT_EQ(out[0].same[0].completed_through, 8u);
}

TEST(AnnouncementMergerTest, WhatDiffersTravelsApart) {
  AnnouncementMerger merger;
  Announce wider = Of({"x"});
  wider.requests[0].signature.shape = {5};
  merger.Add(2, kA, Of({"x"}));
  merger.Add(2, kB, wider);
  const std::vector<FromWorker> out = merger.Take();
  ASSERT_EQ(out.size(), 2u);
  EXPECT_TRUE(out[0].same.empty());
  EXPECT_TRUE(out[1].same.empty());
}

TEST(AnnouncementMergerTest, HowOftenAWorkerSpeaksDoesNotMatter) {
  AnnouncementMerger merger;
  EXPECT_FALSE(merger.Add(2, kA, Of({"x"})));
  EXPECT_FALSE(merger.Add(2, kA, Of({"y"})));
  EXPECT_TRUE(merger.Add(2, kB, Of({"x", "y"})));
  const std::vector<FromWorker> out = merger.Take();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(std::get<Announce>(out[0].message).requests.size(), 2u);
  EXPECT_EQ(out[0].same.size(), 1u);
}

Announce BySlots(std::vector<uint32_t> slots, uint64_t received) {
  Announce announce;
  announce.received_through = received;
  announce.cached = {{0, std::move(slots)}};
  return announce;
}

TEST(AnnouncementMergerTest, SlotsMeanWhatWasReceived) {
  AnnouncementMerger merger;
  merger.Add(2, kA, BySlots({1}, 5));
  merger.Add(2, kA, BySlots({2}, 6));
  EXPECT_EQ(merger.Take().size(), 2u) << "in one message slot 1 would mean something else";
  merger.Add(2, kA, BySlots({3}, 6));
  merger.Add(2, kA, BySlots({4}, 6));
  const std::vector<FromWorker> out = merger.Take();
  ASSERT_EQ(out.size(), 1u);
  ASSERT_EQ(std::get<Announce>(out[0].message).cached.size(), 1u);
  EXPECT_EQ(std::get<Announce>(out[0].message).cached[0].slots, (std::vector<uint32_t>{3, 4}));
}

TEST(AnnouncementMergerTest, ATensorIsTheSameBySlotAndInFull) {
  AnnouncementMerger merger;
  Item item;
  item.body = Batch{0, {BatchEntry{"x", {}, 3, {}}}};
  merger.NoteDown(item);
  EXPECT_FALSE(merger.Add(2, kA, BySlots({3}, 1)));
  EXPECT_TRUE(merger.Add(2, kB, Of({"x"})));
  merger.Take();
  EXPECT_FALSE(merger.Add(2, kA, BySlots({9}, 1))) << "an agent that was not there when it got its name";
  EXPECT_TRUE(merger.Add(2, kB, BySlots({9}, 1)));
}

TEST(AnnouncementMergerTest, AnswersToHaltTravelTogether) {
  AnnouncementMerger merger;
  EXPECT_FALSE(merger.Add(3, kA, Halted{{1, 1}, 1, 4, 4, 10}));
  EXPECT_FALSE(merger.Add(3, kB, Halted{{1, 1}, 1, 5, 5, 10}));
  EXPECT_TRUE(merger.Add(3, kC, Halted{{1, 1}, 1, 5, 5, 11}));
  const std::vector<FromWorker> out = merger.Take();
  ASSERT_EQ(out.size(), 2u) << "they stand at two positions";
  ASSERT_EQ(out[0].same.size(), 1u);
  EXPECT_EQ(out[0].same[0].received_through, 5u);
}

TEST(AnnouncementMergerTest, OneWorkerNeverWaits) {
  AnnouncementMerger merger;
  EXPECT_TRUE(merger.Add(1, kA, Of({"x", "y"})));
}

TEST(AnnouncementMergerTest, OneCompleteTensorTakesAllWithIt) {
  AnnouncementMerger merger;
  EXPECT_FALSE(merger.Add(2, kA, Of({"x", "y"})));
  EXPECT_TRUE(merger.Add(2, kB, Of({"z", "y"})));
  EXPECT_EQ(merger.Take().size(), 2u);
  EXPECT_TRUE(merger.Add(2, kB, Of({"x"}))) << "the other half went out before";
  EXPECT_TRUE(merger.Add(2, kA, Of({"z"})));
}

TEST(AnnouncementMergerTest, WhatWentOutAloneStillCounts) {
  AnnouncementMerger merger;
  EXPECT_FALSE(merger.Add(2, kA, Of({"x"})));
  EXPECT_EQ(merger.Take().size(), 1u);
  EXPECT_TRUE(merger.Add(2, kB, Of({"x"})));
}

TEST(AnnouncementMergerTest, ForgetsWhoAnnounced) {
  AnnouncementMerger merger;
  merger.Add(2, kA, Of({"x"}));
  merger.Take();
  merger.Forget();
  EXPECT_FALSE(merger.Add(2, kB, Of({"x"})));
}

TEST(AnnouncementMergerTest, ATensorThatEndedOtherwiseIsCountedAnew) {
  AnnouncementMerger merger;
  merger.Add(2, kA, Of({"x"}));
  merger.Take();
  EXPECT_FALSE(merger.Add(2, kA, Of({"x"}))) << "the first one ended with an error";
  EXPECT_TRUE(merger.Add(2, kB, Of({"x"})));
  EXPECT_FALSE(merger.Add(2, kB, Of({"x"})));
}

TEST(AnnouncementMergerTest, ProcessSetsAreApart) {
  AnnouncementMerger merger;
  Announce other = Of({"x"});
  other.requests[0].signature.process_set = 1;
  EXPECT_FALSE(merger.Add(2, kA, Of({"x"})));
  EXPECT_FALSE(merger.Add(2, kB, other));
}

}  // namespace
}  // namespace farandole::agent::core
