#include "controller/types/rank_text.h"

#include "gtest/gtest.h"

namespace farandole::controller {
namespace {

std::vector<Rank> Ranks(const std::vector<int>& values) {
  std::vector<Rank> ranks;
  for (int v : values) ranks.push_back(Rank(v));
  return ranks;
}

TEST(RankTextTest, ReadsLikeASentence) {
  EXPECT_EQ(RankText({}), "no rank");
  EXPECT_EQ(RankText(Ranks({3})), "rank 3");
  EXPECT_EQ(RankText(Ranks({3, 4})), "ranks 3 and 4");
  EXPECT_EQ(RankText(Ranks({0, 2, 5})), "ranks 0, 2 and 5");
  EXPECT_EQ(RankText(Ranks({3, 4, 5, 6})), "ranks 3 to 6");
  EXPECT_EQ(RankText(Ranks({0, 2, 4, 6, 8, 10, 12, 14, 16, 18})), "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 2 more");
}

TEST(RankTextTest, NumbersAreShortenedBeyondSixteen) {
  std::vector<int64_t> numbers;
  EXPECT_EQ(NumbersText(numbers), "[]");
  for (int64_t i = 0; i < 16; ++i) numbers.push_back(i);
  EXPECT_EQ(NumbersText(numbers), "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]");
  numbers.push_back(16);
  EXPECT_EQ(NumbersText(numbers), "[0 to 16]");
  numbers.push_back(INT64_MAX);
  numbers.push_back(INT64_MIN);
  EXPECT_EQ(NumbersText(numbers), "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 and 3 more]");
}

}  // namespace
}  // namespace farandole::controller
