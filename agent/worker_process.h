#ifndef FARANDOLE_AGENT_WORKER_PROCESS_H_
#define FARANDOLE_AGENT_WORKER_PROCESS_H_

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace farandole {

// How to start a worker.
struct WorkerCommand {
  std::vector<std::string> arguments;    // the first is looked up on PATH
  std::vector<std::string> environment;  // complete, "NAME=value"
  int stdout_fd = -1;                    // stays the caller's; -1: as this process's own
  int stderr_fd = -1;
  sigset_t signal_mask;  // as it was before this process blocked what it handles
};

// Starts the command in a process group of its own, with standard input empty. It is killed when the calling thread
// ends: call from the main thread. Waits until the program has been loaded.
//   NOT_FOUND            there is no such program, or it cannot be executed
//   RESOURCE_EXHAUSTED   no process or descriptor left
absl::StatusOr<pid_t> StartWorker(const WorkerCommand& command);

}  // namespace farandole

#endif  // FARANDOLE_AGENT_WORKER_PROCESS_H_
