#ifndef FARANDOLE_AGENT_PROCESSES_PROCESS_WATCH_H_
#define FARANDOLE_AGENT_PROCESSES_PROCESS_WATCH_H_

#include <sys/types.h>

#include <functional>
#include <map>

#include "absl/status/status.h"
#include "agent/processes/process_end.h"
#include "base/event_loop.h"
#include "base/unique_fd.h"

namespace farandole::agent::processes {

// Holds a pidfd of each worker process and tells when one ends. Also reaps all children of this process, its own and
// those that it inherits as PID 1. All methods on the loop.
class ProcessWatch {
 public:
  using Callback = std::function<void(const ProcessEnd&)>;

  // `on_end` is called once for each watched process.
  ProcessWatch(EventLoop* loop, Callback on_end);
  ~ProcessWatch();

  // A process that is not our child. NOT_FOUND if it is gone already. Watching twice is harmless.
  absl::Status WatchFromLoop(pid_t pid);
  // A child that leads a process group; what is left of the group is killed when it ends.
  absl::Status WatchChildFromLoop(pid_t pid);
  // The same for a child of our parent, which does not wait for it: how it ended can be read until then.
  absl::Status WatchSiblingFromLoop(pid_t pid);
  // Forgets a process that is not our child, nor a sibling.
  void ForgetFromLoop(pid_t pid);
  // Collects ended children; call on SIGCHLD.
  void ReapFromLoop();

  int children() const;

 private:
  enum class Kind { kOther, kChild, kSibling };
  struct Process {
    UniqueFd pidfd;
    Kind kind = Kind::kOther;
  };

  absl::Status Add(pid_t pid, Kind kind);
  void PidfdReadable(pid_t pid);
  void End(const ProcessEnd& end);

  EventLoop* const loop_;
  const Callback on_end_;
  std::map<pid_t, Process> processes_;
};

}  // namespace farandole::agent::processes

#endif  // FARANDOLE_AGENT_PROCESSES_PROCESS_WATCH_H_
