#include "agent/processes/worker_memory.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace farandole::agent::processes {
namespace {

constexpr char kPrefix[] = "member ";

std::string WithoutTabs(std::string text) {
  std::replace(text.begin(), text.end(), '\t', ' ');
  return text;
}

}  // namespace

// The dot: no key is the beginning of another one.
std::string MemoryKey(Incarnation incarnation) { return absl::StrCat(kPrefix, incarnation.value(), "."); }

std::string MemoryLine(const WorkerMemory& memory) {
  return absl::StrCat(memory.pid, "\t", memory.rank.value(), "\t", int{memory.leaving}, int{memory.left},
                      int{memory.removed}, int{memory.ended}, int{memory.lives}, int{memory.elastic}, "\t",
                      WithoutTabs(memory.removed_because), "\t", WithoutTabs(memory.cause));
}

absl::StatusOr<WorkerMemory> ParseMemory(absl::string_view key, absl::string_view line) {
  const std::vector<std::string> parts = absl::StrSplit(line, '\t');
  WorkerMemory memory;
  uint64_t incarnation = 0;
  int32_t rank = 0;
  const bool good = absl::ConsumePrefix(&key, kPrefix) && absl::ConsumeSuffix(&key, ".") &&
                    absl::SimpleAtoi(key, &incarnation) && parts.size() == 5 &&
                    absl::SimpleAtoi(parts[0], &memory.pid) && absl::SimpleAtoi(parts[1], &rank) &&
                    parts[2].size() == 6;
  if (!good) return absl::InvalidArgumentError(absl::StrCat("not a worker's entry: ", key));
  memory.incarnation = Incarnation(incarnation);
  memory.rank = Rank(rank);
  memory.leaving = parts[2][0] == '1';
  memory.left = parts[2][1] == '1';
  memory.removed = parts[2][2] == '1';
  memory.ended = parts[2][3] == '1';
  memory.lives = parts[2][4] == '1';
  memory.elastic = parts[2][5] == '1';
  memory.removed_because = parts[3];
  memory.cause = parts[4];
  return memory;
}

}  // namespace farandole::agent::processes
