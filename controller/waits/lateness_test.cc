#include "controller/waits/lateness.h"

#include "gtest/gtest.h"

namespace farandole::controller::waits {
namespace {

TEST(LatenessTest, AnnouncementsTellWhoIsLateAndWhoIsLast) {
  Lateness lateness(3);
  for (int i = 0; i < 1000; ++i) {
    lateness.Announced(Rank(0), 0, false);
    lateness.Announced(Rank(1), 100, false);
    lateness.Announced(Rank(2), i == 500 ? 90000 : 5000, true);
  }
  EXPECT_EQ(lateness.Of(Rank(0)).mean_us, 0u);
  EXPECT_EQ(lateness.Of(Rank(0)).last_count, 0u);
  EXPECT_EQ(lateness.Of(Rank(1)).mean_us, 100u);
  EXPECT_NEAR(lateness.Of(Rank(2)).mean_us, 5000, 60);
  EXPECT_EQ(lateness.Of(Rank(2)).max_us, 90000u);
  EXPECT_EQ(lateness.Of(Rank(2)).last_count, 1000u);
}

TEST(LatenessTest, TheMeanFollows) {
  Lateness lateness(1);
  for (int i = 0; i < 1000; ++i) lateness.Announced(Rank(0), 1000, true);
  for (int i = 0; i < 1000; ++i) lateness.Announced(Rank(0), 10, true);
  EXPECT_NEAR(lateness.Of(Rank(0)).mean_us, 10, 1);
}

TEST(LatenessTest, InAReplayTheSmallestSlackIsTheLastRank) {
  Lateness lateness(3);
  lateness.Reported({{Rank(0), 9000}, {Rank(1), 200}, {Rank(2), 7000}});
  EXPECT_EQ(lateness.Of(Rank(0)).mean_us, 0u);
  EXPECT_EQ(lateness.Of(Rank(1)).mean_us, 8800u);
  EXPECT_EQ(lateness.Of(Rank(2)).mean_us, 2000u);
  EXPECT_EQ(lateness.Of(Rank(1)).last_count, 1u);
  EXPECT_EQ(lateness.Of(Rank(2)).last_count, 0u);
  // What came from announcements before does not weigh on it.
  Lateness other(2);
  for (int i = 0; i < 1000; ++i) other.Announced(Rank(0), 200000, true);
  other.Reported({{Rank(0), 9000}, {Rank(1), 200}});
  EXPECT_EQ(other.Of(Rank(0)).mean_us, 0u);
  EXPECT_EQ(other.Of(Rank(0)).max_us, 200000u);
  // One alone says nothing.
  lateness.Reported({{Rank(2), 1}});
  EXPECT_EQ(lateness.Of(Rank(2)).last_count, 0u);
}

}  // namespace
}  // namespace farandole::controller::waits
