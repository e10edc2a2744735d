#ifndef FARANDOLE_TESTS_SIM_ELASTIC_CHECKER_H_
#define FARANDOLE_TESTS_SIM_ELASTIC_CHECKER_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "base/clock.h"
#include "proto/messages.h"
#include "tests/sim/carried.h"
#include "tests/sim/coverage.h"
#include "tests/sim/verdict.h"

namespace farandole::sim {

// Looks at an elastic job from outside and holds it against docs/decisions/014 and 027: a generation is neither too
// small nor too large, and of one run; its members do the same steps; what all members of a generation have committed
// is lost only with the last of them; runs come one after the other, and nobody new enters one that is finished; who
// waits while there is room is let in, and who is to leave is let go, at one of the next commits; a
// member has the local rank that it had first wherever its host has so many.
class ElasticChecker {
 public:
  ElasticChecker(Verdict* verdict, Coverage* coverage, const Elastic& sizes)
      : verdict_(verdict), coverage_(coverage), sizes_(sizes) {}

  // A process of this run that is not a member of anything yet.
  void Born(int64_t pid, const std::string& host, const std::string& run);
  // It calls init(), as this worker.
  void Begins(int64_t pid, Incarnation worker, const Elastic& elastic);
  void Joined(int64_t pid, const GenerationId& id);
  // Has made a copy of its state, which is what it goes back to.
  void Saved(int64_t pid, const TrainState& state) { processes_[pid].saved = state.steps; }
  // Has learned that all members have made that copy.
  void Complete(int64_t pid);
  // Has taken over the state of rank 0.
  void Synced(int64_t pid, const GenerationId& id, const TrainState& state);
  // Takes part in this collective with this state.
  void Steps(const GenerationId& id, uint64_t label, const TrainState& state);
  // It is to leave at the next commit.
  void Asked(int64_t pid);
  // It has ended, or is about to without calling init() again.
  void Over(int64_t pid) { processes_[pid].over = true; }
  // Whether a process of this run has been a member of something since then.
  bool JoinedSince(const std::string& run, TimePoint since) const;

  // The controller tells members of their generation, maybe again.
  void Opened(const View& view);
  // It has heard that a process has finished this run.
  void Finished(const std::string& run) { finished_.insert(run); }
  // With it goes what it knew.
  void ControllerEnded() { finished_.clear(); }
  // Up to here the processes of this host may be taken for dead; the controller may be slow.
  void Excuse(const std::string& host, TimePoint until);
  void ExcuseController(TimePoint until) { controller_excused_ = std::max(until, controller_excused_, Earlier); }

 private:
  struct TrainingProcess {
    std::string host;
    std::string run;
    Incarnation worker;
    uint64_t previous = 0;    // generation, as it says
    uint32_t home = 0;        // the same
    GenerationId generation;  // that it is in, or was in last
    TimePoint begun;          // its init()
    TimePoint joined;
    TimePoint asked = TimePoint::Infinite();
    int commits = 0;      // of the job while it waits, or is to leave
    bool waits = false;   // in init()
    bool member = false;  // of something, some time
    bool over = false;
    int saved = 0;
    int complete = 0;
    // The controller has gone on without it, which it may only do if this one ends.
    std::string passed_over;
  };
  using GenerationKey = std::pair<uint64_t, uint64_t>;
  static GenerationKey KeyOf(const GenerationId& id) { return {id.controller_incarnation, id.number}; }
  struct Generation {
    int floor = 0;  // steps that no member may fall behind
    int size = 0;
  };
  static bool Earlier(TimePoint a, TimePoint b) { return a < b; }
  bool Excused(const TrainingProcess& process) const;
  // Nothing disturbs it, and has not for so long that it must be served since `since`.
  bool Well(const TrainingProcess& process, TimePoint since) const;
  void CheckServed(const TrainingProcess& committer);
  bool OthersStay(const TrainingProcess& process) const;
  void CheckMembers(const View& view, const std::string& name, std::set<int64_t>* pids);
  void CheckHomes(const View& view, const std::string& name);
  void CheckOthers(const std::set<int64_t>& members, const std::string& name, int saved);
  void CheckPassedOver(int64_t pid, const TrainingProcess& process);

  Verdict* const verdict_;
  Coverage* const coverage_;
  const Elastic sizes_;
  std::map<int64_t, TrainingProcess> processes_;  // by pid
  std::map<Incarnation, int64_t> pids_;
  std::map<GenerationKey, Generation> opened_;
  uint64_t last_opened_ = 0;
  std::map<std::tuple<uint64_t, uint64_t, uint64_t>, TrainState> steps_;  // by generation and label
  std::set<std::string> finished_;
  std::map<std::string, TimePoint> excused_;  // by host
  TimePoint controller_excused_;
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_ELASTIC_CHECKER_H_
