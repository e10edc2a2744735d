#include "base/cgroup.h"

#include <algorithm>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace farandole {
namespace {

void AddWithParents(const std::string& mount, std::string path, int version, std::vector<CgroupDirectory>* found) {
  for (;;) {
    found->push_back({absl::StrCat(mount, path == "/" ? "" : path), version});
    const size_t slash = path.rfind('/');
    if (path.size() <= 1 || slash == std::string::npos) return;
    path.resize(slash == 0 ? 1 : slash);
  }
}

}  // namespace

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::vector<CgroupDirectory> CgroupDirectories(absl::string_view controller, const std::string& root) {
  std::vector<CgroupDirectory> found;
  std::ifstream groups(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    // "0::/path" is version 2, "4:cpu,cpuacct:/path" version 1.
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3 || fields[2].empty()) continue;
    if (fields[0] == "0" && fields[1].empty()) {
      AddWithParents(root + "/sys/fs/cgroup", fields[2], 2, &found);
      continue;
    }
    const std::vector<absl::string_view> controllers = absl::StrSplit(fields[1], ',');
    if (std::find(controllers.begin(), controllers.end(), controller) == controllers.end()) continue;
    AddWithParents(absl::StrCat(root, "/sys/fs/cgroup/", controller), fields[2], 1, &found);
  }
  return found;
}

}  // namespace farandole
