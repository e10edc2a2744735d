#ifndef FARANDOLE_AGENT_SEGMENTS_MEMORY_BUDGET_H_
#define FARANDOLE_AGENT_SEGMENTS_MEMORY_BUDGET_H_

#include <cstdint>
#include <string>

namespace farandole::agent::segments {

// What this process may use of memory together with its workers.
struct MemoryBudget {
  uint64_t bytes = 0;
  // Set by the control group; otherwise it is all that the machine has.
  bool of_group = false;

  // The other half is for what the workers hold themselves.
  uint64_t for_segments() const { return bytes / 2; }
};

// The machine's memory, or what the control group (version 2 or 1) or one of its parents allows, if that is less. Who
// goes beyond the latter is not refused but killed. `root` stands before /proc and /sys. What cannot be read does not
// limit.
MemoryBudget ReadMemoryBudget(const std::string& root = "");

// "shared memory: up to 7.8 GiB for segments (half of 15.6 GiB, the machine's memory)".
std::string Describe(const MemoryBudget& budget);

}  // namespace farandole::agent::segments

#endif  // FARANDOLE_AGENT_SEGMENTS_MEMORY_BUDGET_H_
