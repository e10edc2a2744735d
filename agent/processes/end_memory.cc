#include "agent/processes/end_memory.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace farandole::agent::processes {
namespace {

constexpr char kPrefix[] = "end ";

std::string WithoutTabs(std::string text) {
  std::replace(text.begin(), text.end(), '\t', ' ');
  return text;
}

}  // namespace

std::string EndKey(Rank rank) { return absl::StrCat(kPrefix, rank.value()); }

std::string EndLine(const WorkerEnd& end) {
  return absl::StrCat(end.process.pid, "\t", end.process.code, "\t", int{end.without_leaving}, "\t",
                      WithoutTabs(end.removed_because), "\t", WithoutTabs(end.process.cause));
}

absl::StatusOr<WorkerEnd> ParseEnd(absl::string_view key, absl::string_view line) {
  const std::vector<std::string> parts = absl::StrSplit(line, '\t');
  WorkerEnd end;
  int32_t rank = 0, without_leaving = 0;
  const bool good = absl::ConsumePrefix(&key, kPrefix) && absl::SimpleAtoi(key, &rank) && parts.size() == 5 &&
                    absl::SimpleAtoi(parts[0], &end.process.pid) && absl::SimpleAtoi(parts[1], &end.process.code) &&
                    absl::SimpleAtoi(parts[2], &without_leaving);
  if (!good) return absl::InvalidArgumentError(absl::StrCat("not the entry of an end: ", key));
  end.rank = Rank(rank);
  end.without_leaving = without_leaving != 0;
  end.removed_because = parts[3];
  end.process.cause = parts[4];
  return end;
}

}  // namespace farandole::agent::processes
