#include "agent/output/line_cutter.h"

#include <gtest/gtest.h>

namespace farandole::agent::output {
namespace {

TEST(LineCutter, PrefixesEveryLine) {
  LineCutter cutter("[1] ");
  EXPECT_EQ(cutter.Add("a\nb\n\nc"), "[1] a\n[1] b\n[1] \n");
  EXPECT_EQ(cutter.Add("d\n"), "[1] cd\n");
  EXPECT_EQ(cutter.Finish(), "");
}

TEST(LineCutter, ProgressBarsEndLinesWithReturn) {
  LineCutter cutter("[1] ");
  EXPECT_EQ(cutter.Add("10%\r20%\r30"), "[1] 10%\r[1] 20%\r");
  EXPECT_EQ(cutter.Finish(), "[1] 30\n");
}

TEST(LineCutter, ReturnAndNewlineAreOneEnd) {
  LineCutter cutter("[1] ");
  EXPECT_EQ(cutter.Add("a\r\nb\r"), "[1] a\r\n[1] b\r");
  EXPECT_EQ(cutter.Add("\nc\n\n"), "\n[1] c\n[1] \n");
}

TEST(LineCutter, LongLinesAreBroken) {
  LineCutter cutter("> ");
  const std::string half(LineCutter::kLineBytesMax / 2, 'x');
  EXPECT_EQ(cutter.Add(half), "");
  EXPECT_EQ(cutter.Add(half + "yz"), "> " + half + half + "\n");
  EXPECT_EQ(cutter.Finish(), "> yz\n");
}

}  // namespace
}  // namespace farandole::agent::output
