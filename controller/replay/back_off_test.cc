#include "controller/replay/back_off.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::controller::replay {
namespace {

using ::testing::ElementsAre;

TEST(BackOffTest, ShortOnesDoubleTheNeed) {
  BackOff back_off;
  EXPECT_EQ(back_off.Need(7), 3u);
  std::vector<uint32_t> needs;
  for (int i = 0; i < 11; ++i) {
    back_off.Broke(7, 9);
    needs.push_back(back_off.Need(7));
  }
  EXPECT_THAT(needs, ElementsAre(6, 12, 24, 48, 96, 192, 384, 768, 1536, 3072, 3072));
  EXPECT_EQ(back_off.Need(8), 3u);
}

TEST(BackOffTest, ALongOneIsTrustedUntilItIsShort) {
  BackOff back_off;
  back_off.Broke(7, 100);
  EXPECT_EQ(back_off.Need(7), 1u);
  EXPECT_THAT(back_off.trusted(), ElementsAre(7));
  back_off.Broke(7, 50);
  EXPECT_EQ(back_off.Need(7), 1u);
  back_off.Broke(7, 2);
  EXPECT_EQ(back_off.Need(7), 3u);
  EXPECT_THAT(back_off.trusted(), ElementsAre());
}

TEST(BackOffTest, AWithdrawnOneNeverReturns) {
  BackOff back_off;
  back_off.Broke(7, 100);
  back_off.Withdrawn(7);
  EXPECT_EQ(back_off.Need(7), BackOff::kNever);
  EXPECT_THAT(back_off.trusted(), ElementsAre());
  back_off.Broke(7, 100);
  EXPECT_EQ(back_off.Need(7), BackOff::kNever);
}

TEST(BackOffTest, WhatIsRememberedIsBounded) {
  BackOff back_off;
  back_off.Withdrawn(1);
  back_off.Broke(2, 0);
  for (uint64_t digest = 10; digest < 10 + BackOff::kPeriodsMax; ++digest) back_off.Broke(digest, 100);
  EXPECT_EQ(back_off.Need(1), BackOff::kNever);
  EXPECT_EQ(back_off.Need(2), 3u);  // forgotten
  EXPECT_EQ(back_off.trusted().size(), 8u);
  for (uint64_t digest = 10; digest < 10 + BackOff::kPeriodsMax; ++digest) back_off.Withdrawn(digest);
  EXPECT_EQ(back_off.Need(99999), BackOff::kNever);
}

}  // namespace
}  // namespace farandole::controller::replay
