#include "agent/segments/memory_budget.h"

#include <unistd.h>

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/cgroup.h"

namespace farandole::agent::segments {

namespace {

// In the largest unit of which there is one, with one decimal.
std::string SizeText(uint64_t bytes) {
  const char* unit = "bytes";
  double number = static_cast<double>(bytes);
  for (const char* larger : {"KiB", "MiB", "GiB", "TiB"}) {
    if (number < 1024) break;
    number /= 1024;
    unit = larger;
  }
  return absl::StrCat(std::round(number * 10) / 10, " ", unit);
}

}  // namespace

MemoryBudget ReadMemoryBudget(const std::string& root) {
  MemoryBudget budget;
  budget.bytes = uint64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  for (const CgroupDirectory& directory : CgroupDirectories("memory", root)) {
    const char* const file = directory.version == 2 ? "/memory.max" : "/memory.limit_in_bytes";
    uint64_t limit = 0;
    if (!absl::SimpleAtoi(FirstLine(absl::StrCat(directory.path, file)), &limit) || limit == 0) continue;
    if (limit < budget.bytes) budget = {limit, true};
  }
  return budget;
}

std::string Describe(const MemoryBudget& budget) {
  return absl::StrCat("shared memory: up to ", SizeText(budget.for_segments()), " for segments (half of ",
                      SizeText(budget.bytes), ", ",
                      budget.of_group ? "the control group's limit" : "the machine's memory", ")");
}

}  // namespace farandole::agent::segments
