#ifndef FARANDOLE_AGENT_PROCESSES_WORKER_MEMORY_H_
#define FARANDOLE_AGENT_PROCESSES_WORKER_MEMORY_H_

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/types.h"

namespace farandole::agent::processes {

// What an agent that takes over has to know of a worker that had attached to the one before it.
struct WorkerMemory {
  Incarnation incarnation;
  pid_t pid = 0;
  Rank rank;
  bool leaving = false;
  bool left = false;
  bool removed = false;
  bool ended = false;           // and the controller was told so
  std::string removed_because;  // as in RankRecord
  std::string cause;            // of its end
  bool lives = false;           // ended: its process runs on, as another worker
  bool elastic = false;         // its job is
};

// As entries of the launcher's store: key "member INCARNATION.", and one line.
std::string MemoryKey(Incarnation incarnation);
std::string MemoryLine(const WorkerMemory& memory);
// INVALID_ARGUMENT: not what these two have written.
absl::StatusOr<WorkerMemory> ParseMemory(absl::string_view key, absl::string_view line);

}  // namespace farandole::agent::processes

#endif  // FARANDOLE_AGENT_PROCESSES_WORKER_MEMORY_H_
