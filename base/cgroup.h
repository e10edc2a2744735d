#ifndef FARANDOLE_BASE_CGROUP_H_
#define FARANDOLE_BASE_CGROUP_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace farandole {

// A directory of a control group that limits this process.
struct CgroupDirectory {
  std::string path;
  int version;  // 2 or 1
};

// Those of this process and of the parents, up to the mount point: of version 2, and of the hierarchy of version 1 that
// has this controller ("cpu"). `root` stands before /proc and /sys; tests put a directory of theirs there.
std::vector<CgroupDirectory> CgroupDirectories(absl::string_view controller, const std::string& root = "");

// The first line of a file; empty if it cannot be read.
std::string FirstLine(const std::string& path);

}  // namespace farandole

#endif  // FARANDOLE_BASE_CGROUP_H_
