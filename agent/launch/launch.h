#ifndef FARANDOLE_AGENT_LAUNCH_LAUNCH_H_
#define FARANDOLE_AGENT_LAUNCH_LAUNCH_H_

#include <signal.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "agent/core/agent.h"
#include "agent/launch/options.h"
#include "agent/launcher/launcher_store.h"
#include "agent/output/output_relay.h"
#include "agent/output/output_sink.h"
#include "agent/processes/supervisor.h"
#include "base/event_loop.h"

namespace farandole::agent::launch {

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
  Launch(EventLoop* loop, const AgentOptions* options, core::Agent* agent, launcher::LauncherStore* store,
         const sigset_t& signal_mask, Callbacks callbacks);
  ~Launch();

  // Starts all workers or none, except those that an agent before this one has started: they are taken over. NOT_FOUND:
  // there is no such command.
  absl::Status StartFromLoop(std::vector<launcher::KeptEntry>* kept);
  // A signal for this process is one for the workers.
  void PassOnFromLoop(int signal);
  void LauncherGoneFromLoop();

 private:
  struct Child {
    Rank rank;  // in an elastic job its slot
    std::unique_ptr<output::OutputRelay> out;
    std::unique_ptr<output::OutputRelay> err;
  };

  absl::Status StartOne(int local_rank);
  absl::Status TakeOver(std::vector<launcher::KeptEntry>* kept);
  void CannotWrite(const char* stream, const std::string& why);
  void Relay(Child* child, UniqueFd out, UniqueFd err);
  void Ended(const processes::ProcessEnd& end, const core::Agent::Ending& ending);
  void Judge(const processes::WorkerEnd& worker);
  void Apply(const processes::Supervisor::Step& step);
  bool elastic() const { return options_->min_size > 0; }
  // What is known of a worker's part in a job of fixed size. In an elastic one nobody's end is another one's fault.
  core::RankRecord RecordOf(Rank rank) const { return elastic() ? core::RankRecord() : agent_->Record(rank); }

  EventLoop* const loop_;
  const AgentOptions* const options_;
  core::Agent* const agent_;
  launcher::LauncherStore* const store_;
  const sigset_t signal_mask_;
  const Callbacks callbacks_;
  output::OutputSink stdout_;
  output::OutputSink stderr_;
  processes::Supervisor supervisor_;
  std::set<int32_t> started_;  // ranks, by an agent before this one
  std::map<pid_t, Child> children_;
  // Of workers that have ended, kept for output of processes that they left behind.
  std::vector<Child> ended_;
  EventLoop::TimerId timer_ = 0;
};

}  // namespace farandole::agent::launch

#endif  // FARANDOLE_AGENT_LAUNCH_LAUNCH_H_
