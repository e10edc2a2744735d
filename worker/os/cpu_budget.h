#ifndef FARANDOLE_WORKER_OS_CPU_BUDGET_H_
#define FARANDOLE_WORKER_OS_CPU_BUDGET_H_

#include <sched.h>

#include <string>

namespace farandole::worker::os {

// What this process may use of the host's CPUs. Who waits for a peer by spinning asks this first: with fewer CPUs than
// ranks, a spinning rank holds up the one that it waits for.
struct CpuBudget {
  cpu_set_t affinity;     // CPUs this thread may run on
  double quota_cpus = 0;  // CPU time per time that the cgroup allows; 0: unlimited or unknown
};

// Reads the affinity mask and the quota of the cgroup (version 2 or 1) and its parents. `root` stands before /proc and
// /sys; tests put a directory of theirs there. Never fails: what cannot be read does not limit.
CpuBudget ReadCpuBudget(const std::string& root = "");

// Whether so many ranks of this host can run at the same time.
bool HasCpuForEach(int ranks);

}  // namespace farandole::worker::os

#endif  // FARANDOLE_WORKER_OS_CPU_BUDGET_H_
