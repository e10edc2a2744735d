#ifndef FARANDOLE_AGENT_PROCESSES_END_MEMORY_H_
#define FARANDOLE_AGENT_PROCESSES_END_MEMORY_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "agent/processes/supervisor.h"

namespace farandole::agent::processes {

// The end of a started worker as an entry of the launcher's store, for the verdict of an agent that takes over: key
// "end RANK", and one line. Of the time when it stopped taking part nothing is kept: the order of the entries is that
// of the ends.
std::string EndKey(Rank rank);
std::string EndLine(const WorkerEnd& end);
// INVALID_ARGUMENT: not what these two have written.
absl::StatusOr<WorkerEnd> ParseEnd(absl::string_view key, absl::string_view line);

}  // namespace farandole::agent::processes

#endif  // FARANDOLE_AGENT_PROCESSES_END_MEMORY_H_
