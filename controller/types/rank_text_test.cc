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

}  // namespace
}  // namespace farandole::controller
