#include "worker/os/cpu_budget.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/cgroup.h"

namespace farandole::worker::os {
namespace {

// quota and period in microseconds; 0 if there is no limit.
double Ratio(const std::string& quota, const std::string& period) {
  double q = 0, p = 0;
  if (!absl::SimpleAtod(quota, &q) || !absl::SimpleAtod(period, &p) || q <= 0 || p <= 0) return 0;
  return q / p;
}

double QuotaIn(const CgroupDirectory& directory) {
  if (directory.version == 2) {
    const std::vector<std::string> parts = absl::StrSplit(FirstLine(directory.path + "/cpu.max"), ' ');
    return parts.size() == 2 ? Ratio(parts[0], parts[1]) : 0;
  }
  return Ratio(FirstLine(directory.path + "/cpu.cfs_quota_us"), FirstLine(directory.path + "/cpu.cfs_period_us"));
}

}  // namespace

CpuBudget ReadCpuBudget(const std::string& root) {
  CpuBudget budget;
  CPU_ZERO(&budget.affinity);
  // Hosts with more CPUs than the mask holds: treated as unlimited.
  if (sched_getaffinity(0, sizeof budget.affinity, &budget.affinity) != 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) CPU_SET(cpu, &budget.affinity);
  }
  for (const CgroupDirectory& directory : CgroupDirectories("cpu", root)) {
    const double quota = QuotaIn(directory);
    if (quota > 0 && (budget.quota_cpus == 0 || quota < budget.quota_cpus)) budget.quota_cpus = quota;
  }
  return budget;
}

bool HasCpuForEach(int ranks) {
  const CpuBudget budget = ReadCpuBudget();
  return CPU_COUNT(&budget.affinity) >= ranks && (budget.quota_cpus == 0 || budget.quota_cpus >= ranks);
}

}  // namespace farandole::worker::os
