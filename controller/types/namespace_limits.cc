#include "controller/types/namespace_limits.h"

#include <cstdint>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/job_name.h"

namespace farandole::controller {
namespace {

// "" or what is wrong with it.
std::string TakeLimit(absl::string_view word, NamespaceLimits* limits) {
  const std::vector<absl::string_view> sides = absl::StrSplit(word, absl::MaxSplits('=', 1));
  size_t* const limit = sides[0] == "jobs" ? &limits->jobs_max : sides[0] == "agents" ? &limits->agents_max : nullptr;
  uint32_t value = 0;
  if (limit == nullptr || sides.size() != 2 || !absl::SimpleAtoi(sides[1], &value) || value == 0) {
    return absl::StrCat("'", word, "' is none of jobs=N and agents=N, with N from 1 on");
  }
  if (*limit != NamespaceLimits::kNone) return absl::StrCat(sides[0], " is there twice");
  *limit = value;
  return "";
}

}  // namespace

absl::StatusOr<LimitTable> LimitTable::Parse(absl::string_view text, absl::string_view what) {
  LimitTable table;
  size_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const auto wrong = [&, number](absl::string_view why) {
      return absl::InvalidArgumentError(absl::StrCat("line ", number, " of ", what, ": ", why));
    };
    line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const std::vector<absl::string_view> words = absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    if (words[0] != kOthers && !IsNamespace(words[0])) {
      return wrong(
          absl::StrCat("the namespace must be ", kNamespaceRule, ", or * for the others, not '", words[0], "'"));
    }
    if (words.size() == 1) return wrong("jobs=N or agents=N is missing");
    if (table.limits_.size() >= kNamespacesMax) return wrong(absl::StrCat("more than ", kNamespacesMax, " namespaces"));
    const auto [limits, fresh] = table.limits_.try_emplace(std::string(words[0]));
    if (!fresh) return wrong(absl::StrCat(words[0], " has a line already"));
    for (size_t i = 1; i < words.size(); ++i) {
      const std::string why = TakeLimit(words[i], &limits->second);
      if (!why.empty()) return wrong(why);
    }
  }
  return table;
}

NamespaceLimits LimitTable::Of(absl::string_view name) const {
  auto found = limits_.find(name);
  if (found == limits_.end()) found = limits_.find(absl::string_view(kOthers));
  return found == limits_.end() ? NamespaceLimits() : found->second;
}

}  // namespace farandole::controller
