#ifndef FARANDOLE_AGENT_MEMORY_BUDGET_H_
#define FARANDOLE_AGENT_MEMORY_BUDGET_H_

#include <cstdint>
#include <string>

namespace farandole {

// Bytes of memory that this process may use together with its workers: the host's, or what the control group (version 2
// or 1) or one of its parents allows, if that is less. Who goes beyond the latter is not refused but killed. `root`
// stands before /proc and /sys. What cannot be read does not limit.
uint64_t MemoryBudgetBytes(const std::string& root = "");

}  // namespace farandole

#endif  // FARANDOLE_AGENT_MEMORY_BUDGET_H_
