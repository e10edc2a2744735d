#include "controller/members/generation_count.h"

#include "gtest/gtest.h"

namespace farandole::controller::members {
namespace {

TEST(GenerationCountTest, GoesOnFromWhatItIsTold) {
  GenerationCount count(0);
  EXPECT_TRUE(count.Learn(7));
  EXPECT_TRUE(count.Learn(3));
  EXPECT_EQ(count.Next(), 8u);
  EXPECT_TRUE(count.Learn(8 + GenerationCount::kStepMax));
  EXPECT_EQ(count.Next(), 9 + GenerationCount::kStepMax);
}

TEST(GenerationCountTest, DoesNotBelieveWhatCannotBe) {
  GenerationCount count(5);
  for (uint64_t number : {~uint64_t{0}, uint64_t{1} << 63, 6 + GenerationCount::kStepMax}) {
    EXPECT_FALSE(count.Learn(number)) << number;
  }
  EXPECT_EQ(count.Next(), 6u);
  GenerationCount end(GenerationCount::kToldMax);
  EXPECT_TRUE(end.Learn(GenerationCount::kToldMax));
  EXPECT_EQ(end.Next(), GenerationCount::kToldMax + 1);
  EXPECT_FALSE(end.Learn(GenerationCount::kToldMax + 1));
  EXPECT_EQ(end.Next(), GenerationCount::kToldMax + 2);
}

}  // namespace
}  // namespace farandole::controller::members
