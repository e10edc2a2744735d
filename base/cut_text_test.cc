#include "base/cut_text.h"

#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(CutTextTest, ATextIsCutBetweenCharacters) {
  EXPECT_EQ(CutText("abc", 3), "abc");
  EXPECT_EQ(CutText("abcd", 3), "abc");
  EXPECT_EQ(CutText("a\u20ac", 4), "a\u20ac");
  EXPECT_EQ(CutText("a\u20ac", 3), "a") << "a character of three bytes";
  EXPECT_EQ(CutText("a\u20ac", 2), "a");
  EXPECT_EQ(CutText("a", 0), "");
  EXPECT_EQ(CutText("", 0), "");
}

}  // namespace
}  // namespace farandole
