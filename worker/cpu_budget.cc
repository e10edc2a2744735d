#include "worker/cpu_budget.h"

#include <fstream>
#include <sstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace farandole {
namespace {

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// quota and period in microseconds; 0 if there is no limit.
double Ratio(const std::string& quota, const std::string& period) {
  double q = 0, p = 0;
  if (!absl::SimpleAtod(quota, &q) || !absl::SimpleAtod(period, &p) || q <= 0 || p <= 0) return 0;
  return q / p;
}

double QuotaIn(const std::string& directory, bool version2) {
  if (version2) {
    const std::vector<std::string> parts = absl::StrSplit(FirstLine(directory + "/cpu.max"), ' ');
    return parts.size() == 2 ? Ratio(parts[0], parts[1]) : 0;
  }
  return Ratio(FirstLine(directory + "/cpu.cfs_quota_us"), FirstLine(directory + "/cpu.cfs_period_us"));
}

// The least quota among the group and its parents, up to the mount point.
double LeastQuota(const std::string& mount, std::string path, bool version2) {
  double least = 0;
  for (;;) {
    const double here = QuotaIn(mount + (path == "/" ? "" : path), version2);
    if (here > 0 && (least == 0 || here < least)) least = here;
    const size_t slash = path.rfind('/');
    if (path.size() <= 1 || slash == std::string::npos) return least;
    path.resize(slash == 0 ? 1 : slash);
  }
}

}  // namespace

CpuBudget ReadCpuBudget(const std::string& root) {
  CpuBudget budget;
  CPU_ZERO(&budget.affinity);
  // Hosts with more CPUs than the mask holds: treated as unlimited.
  if (sched_getaffinity(0, sizeof budget.affinity, &budget.affinity) != 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) CPU_SET(cpu, &budget.affinity);
  }
  std::ifstream groups(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    // "0::/path" is version 2, "4:cpu,cpuacct:/path" version 1.
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3 || fields[2].empty()) continue;
    const bool version2 = fields[0] == "0" && fields[1].empty();
    double quota = 0;
    if (version2) {
      quota = LeastQuota(root + "/sys/fs/cgroup", fields[2], true);
    } else {
      for (absl::string_view controller : absl::StrSplit(fields[1], ',')) {
        if (controller == "cpu") quota = LeastQuota(root + "/sys/fs/cgroup/cpu", fields[2], false);
      }
    }
    if (quota > 0 && (budget.quota_cpus == 0 || quota < budget.quota_cpus)) budget.quota_cpus = quota;
  }
  return budget;
}

bool HasCpuForEach(int ranks) {
  const CpuBudget budget = ReadCpuBudget();
  return CPU_COUNT(&budget.affinity) >= ranks && (budget.quota_cpus == 0 || budget.quota_cpus >= ranks);
}

}  // namespace farandole
