#include "controller/members/ended_generations.h"

#include <gtest/gtest.h>

#include <string>

namespace farandole::controller::members {
namespace {

TEST(EndedGenerations, TheLastOfEachJobIsKept) {
  EndedGenerations ended;
  ended.Keep("j", {{1, 7}, "first"});
  ended.Keep("k", {{4, 7}, "other"});
  ended.Keep("j", {{2, 7}, "second"});
  ended.Keep("j", {});
  EXPECT_EQ(ended.Find("j").id, (GenerationId{2, 7}));
  EXPECT_EQ(ended.Find("j").reason, "second");
  EXPECT_EQ(ended.Find("k").reason, "other");
  EXPECT_EQ(ended.Find("unknown").id.number, 0u);
}

TEST(EndedGenerations, TheEldestIsForgotten) {
  EndedGenerations ended;
  for (size_t i = 0; i <= EndedGenerations::kMax; ++i) ended.Keep(std::to_string(i), {{1, 7}, "why"});
  EXPECT_EQ(ended.Find("0").id.number, 0u);
  EXPECT_EQ(ended.Find("1").reason, "why");
  EXPECT_EQ(ended.Find(std::to_string(EndedGenerations::kMax)).reason, "why");
}

}  // namespace
}  // namespace farandole::controller::members
