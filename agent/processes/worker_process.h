#ifndef FARANDOLE_AGENT_PROCESSES_WORKER_PROCESS_H_
#define FARANDOLE_AGENT_PROCESSES_WORKER_PROCESS_H_

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace farandole::agent::processes {

// How to start a worker.
struct WorkerCommand {
  std::vector<std::string> arguments;    // the first is looked up on PATH
  std::vector<std::string> environment;  // complete, "NAME=value"
  int stdout_fd = -1;                    // stays the caller's; -1: as this process's own
  int stderr_fd = -1;
  sigset_t signal_mask;  // as it was before this process blocked what it handles
  // For a worker that outlives this process: where it says first that it is there, with the packet "put LF pid LF key"
  // and `kept_fds`, see LauncherStore. Without that being taken it does not run. -1: it dies with this process.
  int store_fd = -1;
  std::string store_key;
  std::vector<int> kept_fds;  // at most kPacketFdsMax
};

// Starts the command in a process group of its own, with standard input empty. It is killed when the calling thread
// ends: call from the main thread. With a store it is a sibling of this process instead of a child, and killed when
// the parent's thread ends that started this process. Waits until the program has been loaded.
//   NOT_FOUND            there is no such program, or it cannot be executed
//   RESOURCE_EXHAUSTED   no process or descriptor left
absl::StatusOr<pid_t> StartWorker(const WorkerCommand& command);

}  // namespace farandole::agent::processes

#endif  // FARANDOLE_AGENT_PROCESSES_WORKER_PROCESS_H_
