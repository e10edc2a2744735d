#include "controller/replay/rotation.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace farandole::controller::replay {
namespace {

// "ab c" has the batches {a, b} and {c}.
Period Of(const std::string& text) {
  Period period;
  for (absl::string_view names : absl::StrSplit(text, ' ')) {
    period.batches.emplace_back();
    for (char c : names) period.batches.back().requests.push_back({std::string(1, c), {}});
  }
  return period;
}

std::string Rotated(const std::string& known, const std::string& found) {
  const auto period = RotatedLike(Of(known), Of(found));
  std::string text;
  if (!period) return "none";
  for (const PeriodBatch& batch : period->batches) {
    if (!text.empty()) text += " ";
    for (const Request& request : batch.requests) text += request.name;
  }
  return text;
}

TEST(RotationTest, BeginsWhereTheOtherDoes) {
  EXPECT_EQ(Rotated("abc def gh", "a b c d e f g h"), "abc def gh");
  EXPECT_EQ(Rotated("abc def gh", "d e f g h a b c"), "def gh abc");
  EXPECT_EQ(Rotated("abc def gh", "g h a b c d e f"), "gh abc def");
}

TEST(RotationTest, ABatchAcrossTheBeginningIsNoneOfThese) {
  EXPECT_EQ(Rotated("abc def gh", "c d e f g h a b"), "none");
  EXPECT_EQ(Rotated("abcdefgh", "d e f g h a b c"), "none");
  EXPECT_EQ(Rotated("ab", "b a"), "none");
}

TEST(RotationTest, TheOrderMayVaryALittle) {
  EXPECT_EQ(Rotated("abc def gh", "b a d c e f h g"), "abc def gh");
  EXPECT_EQ(Rotated("abc def gh", "e d f h g a c b"), "def gh abc");
  EXPECT_EQ(Rotated("abcdefgh", "h g f e d c b a"), "none");
}

TEST(RotationTest, ATensorMayOccurTwice) {
  EXPECT_EQ(Rotated("ab ac", "a b a c"), "ab ac");
  EXPECT_EQ(Rotated("ab ac", "a c a b"), "ac ab");
}

TEST(RotationTest, SetsAreTold) {
  Period known = Of("a a b"), found = Of("a b a");
  known.batches[0].process_set = found.batches[2].process_set = 1;
  const auto rotated = RotatedLike(known, found);
  ASSERT_TRUE(rotated.has_value());
  EXPECT_EQ(rotated->batches[0].process_set, 0u);
  EXPECT_EQ(rotated->batches[1].requests[0].name, "b");
  EXPECT_EQ(rotated->batches[2].process_set, 1u);
}

}  // namespace
}  // namespace farandole::controller::replay
