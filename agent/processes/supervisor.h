#ifndef FARANDOLE_AGENT_PROCESSES_SUPERVISOR_H_
#define FARANDOLE_AGENT_PROCESSES_SUPERVISOR_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "agent/processes/process_end.h"
#include "base/clock.h"
#include "proto/types.h"

namespace farandole::agent::processes {

// A started worker that has ended, with what the agent knew of it.
struct WorkerEnd {
  Rank rank;
  ProcessEnd process;
  // It was still a member: a normal end would have been Leave first.
  bool without_leaving = false;
  // It stopped taking part at this time (said Leave), before its process ended. Infinite: it did not.
  TimePoint stopped_taking_part = TimePoint::Infinite();
  // It had been told that the job is over, with this sentence: its end is a consequence. "" if not.
  std::string removed_because;
  // The agent itself did not run for so long before it learned of this end, which may be a consequence.
  int64_t agent_stood_still_ms = 0;
};

// What happens to the workers of this host when one fails, or the launcher does. Pure: state, event, now -> step.
//
//   RUNNING --a worker fails--> GRACE --grace over--> TERMINATING --5 s--> KILLING --5 s--> KILLING ALL
//      |-------------------launcher gone----------------^  (2 s, all alike)
//   any --all have ended--> finished
class Supervisor {
 public:
  struct Step {
    // To the process groups of those that still run and take part, and of those that have left the job. The latter are
    // about to end, and how they do may be the first failure: they get a signal one stage later. 0 = none.
    int signal = 0;
    int signal_to_left = 0;
    std::string sentence;  // for standard error; "" = none. Comes once, when all have ended
    bool finished = false;
    int exit_code = 0;
  };

  // `host` names this host in the sentence. `code_of_others`: the exit code when the job has failed elsewhere.
  Supervisor(int workers, int64_t grace_ms, std::string host, int code_of_others = 1);

  Step Ended(const WorkerEnd& end, TimePoint now);
  // The launcher has died.
  Step LauncherGone(TimePoint now);
  // Somebody has asked the job to end, by Ctrl-C or the like: what ends from then on has not failed.
  void AskedToEnd(TimePoint now) { asked_to_end_at_ = std::min(asked_to_end_at_, now); }
  Step Tick(TimePoint now);
  TimePoint NextDeadline() const { return deadline_; }

 private:
  enum class State { kRunning, kGrace, kTerminating, kKilling, kKillingAll };
  struct Failure {
    WorkerEnd end;
    TimePoint when;
  };

  Step Terminate(TimePoint now, int64_t kill_after_ms);
  // Whether a worker ended because of a signal of ours.
  bool OwnDoing(const WorkerEnd& end) const;
  // Who had left before that and ended well: often the reason, as others then waited in vain. "" if nobody.
  std::string WhoHadLeft(TimePoint before) const;
  // Fills in the sentence if there is something to say.
  void Say(Step* step) const;
  const Failure* First() const;
  int ExitCode() const;

  const int64_t grace_ms_;
  const std::string host_;
  const int code_of_others_;
  int running_;
  State state_ = State::kRunning;
  TimePoint deadline_ = TimePoint::Infinite();
  TimePoint terminated_at_ = TimePoint::Infinite();
  TimePoint asked_to_end_at_ = TimePoint::Infinite();
  bool launcher_gone_ = false;
  std::vector<Failure> failures_;                       // those that this process did not cause itself
  std::vector<std::pair<TimePoint, Rank>> ended_well_;  // and when they stopped taking part
};

}  // namespace farandole::agent::processes

#endif  // FARANDOLE_AGENT_PROCESSES_SUPERVISOR_H_
