#include "controller/members/last_generations.h"

#include "gtest/gtest.h"

namespace farandole::controller::members {
namespace {

TEST(LastGenerationsTest, KeepsTheNumberOfEachJob) {
  LastGenerations last(4);
  last.Keep("a", 3);
  last.Keep("b", 9);
  last.Keep("c", 0);
  EXPECT_EQ(last.Of("a"), 3u);
  EXPECT_EQ(last.Of("b"), 9u);
  EXPECT_EQ(last.Of("c"), 0u);
  last.Keep("a", 5);
  EXPECT_EQ(last.Of("a"), 5u);
}

TEST(LastGenerationsTest, ForgetsTheOldestBeyondItsBound) {
  LastGenerations last(2);
  last.Keep("a", 1);
  last.Keep("b", 2);
  last.Keep("a", 3);
  last.Keep("c", 4);
  EXPECT_EQ(last.Of("a"), 3u) << "kept again since";
  EXPECT_EQ(last.Of("b"), 0u);
  EXPECT_EQ(last.Of("c"), 4u);
}

}  // namespace
}  // namespace farandole::controller::members
