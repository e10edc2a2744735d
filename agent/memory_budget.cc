#include "agent/memory_budget.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/cgroup.h"

namespace farandole {

uint64_t MemoryBudgetBytes(const std::string& root) {
  uint64_t least = uint64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  for (const CgroupDirectory& directory : CgroupDirectories("memory", root)) {
    const char* const file = directory.version == 2 ? "/memory.max" : "/memory.limit_in_bytes";
    uint64_t limit = 0;
    if (absl::SimpleAtoi(FirstLine(absl::StrCat(directory.path, file)), &limit) && limit > 0) {
      least = std::min(least, limit);
    }
  }
  return least;
}

}  // namespace farandole
