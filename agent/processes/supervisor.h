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
  Rank rank;  // in an elastic job its slot, as ranks change
  ProcessEnd process;
  // It was still a member: a normal end would have been Leave first.
  bool without_leaving = false;
  // Of an elastic job: it ended well, and not because it was turned away.
  bool finished = false;
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
//
// In an elastic job the others leave it when one fails, and take their time: they may be the last who have its state.
//
//   RUNNING --this host is asked to leave--> LEAVING --patience over--> TERMINATING
class Supervisor {
 public:
  struct Plan {
    int workers = 0;
    int64_t grace_ms = 0;
    std::string host;        // names this host in the sentence
    int code_of_others = 1;  // the exit code when the job has failed elsewhere, or goes on elsewhere
    bool elastic = false;
    int64_t leave_ms = 0;  // for the workers to leave an elastic job
  };

  struct Step {
    // Those that still run are to leave the elastic job.
    bool retire = false;
    // To the process groups of those that still run and take part, and of those that have left the job. The latter are
    // about to end, and how they do may be the first failure: they get a signal one stage later. 0 = none.
    int signal = 0;
    int signal_to_left = 0;
    std::string sentence;  // for standard error; "" = none. Comes once, when all have ended
    bool finished = false;
    int exit_code = 0;
  };

  explicit Supervisor(Plan plan) : plan_(std::move(plan)), running_(plan_.workers) {}

  Step Ended(const WorkerEnd& end, TimePoint now);
  // The launcher has died.
  Step LauncherGone(TimePoint now);
  // Somebody has asked the job to end, by Ctrl-C or the like: what ends from then on has not failed.
  void AskedToEnd(TimePoint now) { asked_to_end_at_ = std::min(asked_to_end_at_, now); }
  // This host is wanted back from an elastic job that goes on elsewhere.
  Step AskedToLeave(TimePoint now);
  Step Tick(TimePoint now);
  TimePoint NextDeadline() const { return deadline_; }
  bool asked_to_leave() const { return asked_to_leave_; }

 private:
  enum class State { kRunning, kGrace, kLeaving, kTerminating, kKilling, kKillingAll };
  struct Failure {
    WorkerEnd end;
    TimePoint when;
  };

  Step Terminate(TimePoint now, int64_t kill_after_ms);
  // Whether a worker ended because of a signal of ours.
  bool OwnDoing(const WorkerEnd& end) const;
  // Who had left before that and ended well: often the reason, as others then waited in vain. "" if nobody.
  std::string WhoHadLeft(TimePoint before) const;
  const char* Word() const { return plan_.elastic ? "the process in slot " : "rank "; }
  // Fills in the sentence if there is something to say.
  void Say(Step* step) const;
  const Failure* First() const;
  int ExitCode() const;

  const Plan plan_;
  int running_;
  State state_ = State::kRunning;
  TimePoint deadline_ = TimePoint::Infinite();
  TimePoint terminated_at_ = TimePoint::Infinite();
  TimePoint asked_to_end_at_ = TimePoint::Infinite();
  bool launcher_gone_ = false;
  bool asked_to_leave_ = false;
  bool finished_ = false;
  std::vector<Failure> failures_;                       // those that this process did not cause itself
  std::vector<std::pair<TimePoint, Rank>> ended_well_;  // and when they stopped taking part
};

}  // namespace farandole::agent::processes

#endif  // FARANDOLE_AGENT_PROCESSES_SUPERVISOR_H_
