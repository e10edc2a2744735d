#ifndef FARANDOLE_AGENT_LAUNCH_H_
#define FARANDOLE_AGENT_LAUNCH_H_

#include <signal.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "agent/agent.h"
#include "agent/launcher_store.h"
#include "agent/options.h"
#include "agent/output_relay.h"
#include "agent/output_sink.h"
#include "agent/supervisor.h"
#include "base/event_loop.h"

namespace farandole {

// The workers that this agent has started: their processes, output and signals, and what the supervisor decides when
// one of them ends. On the loop, which runs in the main thread.
class Launch {
 public:
  struct Callbacks {
    std::function<void(const std::string&)> log;
    // All have ended; comes once.
    std::function<void(int exit_code)> on_finished;
  };

  // `signal_mask`: as workers shall have it. All pointers outlive this.
  Launch(EventLoop* loop, const AgentOptions* options, Agent* agent, LauncherStore* store, const sigset_t& signal_mask,
         Callbacks callbacks);
  ~Launch();

  // Starts all workers or none, except those that an agent before this one has started: they are taken over. NOT_FOUND:
  // there is no such command.
  absl::Status StartFromLoop(std::vector<KeptEntry>* kept);
  // A signal for this process is one for the workers.
  void PassOnFromLoop(int signal);
  void LauncherGoneFromLoop();

 private:
  struct Child {
    Rank rank;
    std::unique_ptr<OutputRelay> out;
    std::unique_ptr<OutputRelay> err;
  };

  absl::Status StartOne(int local_rank);
  absl::Status TakeOver(std::vector<KeptEntry>* kept);
  void Relay(Child* child, UniqueFd out, UniqueFd err);
  void Ended(const ProcessEnd& end, bool without_leaving);
  void Judge(const WorkerEnd& worker);
  void Apply(const Supervisor::Step& step);

  EventLoop* const loop_;
  const AgentOptions* const options_;
  Agent* const agent_;
  LauncherStore* const store_;
  const sigset_t signal_mask_;
  const Callbacks callbacks_;
  OutputSink stdout_;
  OutputSink stderr_;
  Supervisor supervisor_;
  std::set<int32_t> started_;  // ranks, by an agent before this one
  std::map<pid_t, Child> children_;
  // Of workers that have ended, kept for output of processes that they left behind.
  std::vector<Child> ended_;
  EventLoop::TimerId timer_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_AGENT_LAUNCH_H_
