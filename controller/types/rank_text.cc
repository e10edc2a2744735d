#include "controller/types/rank_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace farandole::controller {

std::string RankText(const std::vector<Rank>& ranks) {
  constexpr size_t kShown = 8;
  if (ranks.empty()) return "no rank";
  if (ranks.size() == 1) return absl::StrCat("rank ", ranks[0].value());
  if (ranks.size() > 2 && ranks.back().value() - ranks.front().value() + 1 == static_cast<int>(ranks.size())) {
    return absl::StrCat("ranks ", ranks.front().value(), " to ", ranks.back().value());
  }
  std::string text = "ranks ";
  const size_t shown = std::min(kShown, ranks.size());
  const bool all = shown == ranks.size();
  for (size_t i = 0; i < shown; ++i) {
    const char* before = i == 0 ? "" : all && i + 1 == shown ? " and " : ", ";
    absl::StrAppend(&text, before, ranks[i].value());
  }
  if (!all) absl::StrAppend(&text, " and ", ranks.size() - shown, " more");
  return text;
}

std::string NumbersText(const std::vector<int64_t>& numbers) {
  constexpr size_t kShown = 16;
  if (numbers.size() <= kShown) return ShapeString(numbers);
  bool in_turn = numbers[0] >= 0;
  for (size_t i = 1; i < numbers.size() && in_turn; ++i)
    in_turn = numbers[i - 1] < numbers[i] && numbers[i - 1] + 1 == numbers[i];
  if (in_turn) return absl::StrCat("[", numbers.front(), " to ", numbers.back(), "]");
  std::string text = "[";
  for (size_t i = 0; i < kShown; ++i) absl::StrAppend(&text, i == 0 ? "" : ", ", numbers[i]);
  absl::StrAppend(&text, " and ", numbers.size() - kShown, " more]");
  return text;
}

}  // namespace farandole::controller
