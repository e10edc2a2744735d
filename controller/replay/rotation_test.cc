#include "controller/replay/rotation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace farandole::controller::replay {
namespace {

// "ab c" has the batches {a, b} and {c}.
Period Of(const std::string& text) {
  Period period;
  for (absl::string_view names : absl::StrSplit(text, ' ')) {
    period.batches.emplace_back();
    period.batches.back().process_set = absl::ascii_isupper(names[0]) ? 1 : 0;
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

TEST(RotationTest, TheOrderMayVary) {
  EXPECT_EQ(Rotated("abc def gh", "b a d c e f h g"), "abc def gh");
  EXPECT_EQ(Rotated("abc def gh", "e d f h g a c b"), "def gh abc");
  EXPECT_EQ(Rotated("abc def gh", "h e f d g c a b"), "def gh abc");
  EXPECT_EQ(Rotated("abcdefgh", "c f a h b e g d"), "abcdefgh");
  EXPECT_EQ(Rotated("abc def gh", "h b c d e f g a"), "abc def gh");
}

TEST(RotationTest, ATensorMayOccurTwice) {
  EXPECT_EQ(Rotated("ab ac", "a b a c"), "ab ac");
  EXPECT_EQ(Rotated("ab ac", "a c a b"), "ac ab");
  EXPECT_EQ(Rotated("a a b", "a b a"), "a b a");
  EXPECT_EQ(Rotated("a b b", "b b a"), "b b a");
  EXPECT_EQ(Rotated("a b c d a b c d a b c d n", "c d a b c d a b c d n a b"), "c d a b c d a b c d n a b");
  EXPECT_EQ(Rotated("abcd abcd abcd n", "c d a b c d a b c d n a b"), "none");
  EXPECT_EQ(Rotated("abcd abcd abcd n", "a b c d a b c d n a b c d"), "abcd abcd n abcd");
  EXPECT_EQ(Rotated("abcd abcd abcd n", "a b d c a b c d n a b c d"), "abcd abcd n abcd");
  EXPECT_EQ(Rotated("abcd abcd abcd n", "a b c d a c b d a b c d n"), "abcd abcd abcd n");
}

TEST(RotationTest, SetsAreTold) {
  // Capitals are of another set.
  EXPECT_EQ(Rotated("A a b", "a b A"), "a b A");
  Period known = Of("a A b"), found = Of("a b A");
  known.batches[1].requests[0].name = found.batches[2].requests[0].name = "a";
  const auto rotated = RotatedLike(known, found);
  ASSERT_TRUE(rotated.has_value());
  EXPECT_EQ(rotated->batches[1].process_set, 1u);
}

// The whole controller waits for each of these, at each dispatch for a while. Were all places compared, it would be out
// of this test's time by far.
TEST(RotationTest, ManyPlacesAreQuick) {
  constexpr int kTensors = 65536, kBatches = 1024;
  Period known, found;
  known.batches.resize(kBatches);
  found.batches.resize(kBatches);
  for (int i = 0; i < kTensors; ++i) {
    known.batches[i * kBatches / kTensors].requests.push_back({std::to_string(i), {}});
    found.batches[i * kBatches / kTensors].requests.push_back({std::to_string(i ^ 1), {}});
  }
  for (int times = 0; times < 150; ++times) EXPECT_TRUE(RotatedLike(known, found).has_value());
  std::reverse(found.batches.begin(), found.batches.end());
  for (PeriodBatch& batch : found.batches) std::reverse(batch.requests.begin(), batch.requests.end());
  for (int times = 0; times < 150; ++times) RotatedLike(known, found);
}

}  // namespace
}  // namespace farandole::controller::replay
