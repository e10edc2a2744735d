#include "agent/announcement_merger.h"

#include "gtest/gtest.h"

namespace farandole {
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
  ASSERT_EQ(out.size(), 3u);
  EXPECT_EQ(out[0].worker_incarnation, kA);
  EXPECT_EQ(out[1].worker_incarnation, kC);
  EXPECT_EQ(out[2].worker_incarnation, kB);
  EXPECT_TRUE(merger.empty());
  EXPECT_FALSE(merger.Add(3, kA, Of({"x"}))) << "the next round begins anew";
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
}  // namespace farandole
