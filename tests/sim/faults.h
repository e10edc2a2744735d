#ifndef FARANDOLE_TESTS_SIM_FAULTS_H_
#define FARANDOLE_TESTS_SIM_FAULTS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "tests/sim/world.h"

namespace farandole::sim {

// The safety phase: from a mixture of faults that the seed chooses, one after the other at random times. All of them
// are over when the phase is.
class Faults {
 public:
  explicit Faults(World* world) : world_(world) {}
  // Chooses, and sets World::quiet_from.
  void Start();
  // One of those that no script may notice, by number.
  void Survivable(int number);

  // None begins after this, and none lasts longer.
  TimePoint until() const { return until_; }
  // No fault happens in this run.
  bool none() const { return enabled_.empty(); }

 private:
  using Fault = void (Faults::*)();
  // In which jobs it happens: with hosts that stay, which have a fixed size or are elastic; with pods.
  enum class Jobs { kAll, kOfHosts, kElastic, kOfPods };
  struct Kind {
    const char* name;
    Fault fault;
    Jobs jobs;
  };
  static const Kind kKinds[];

  bool Happens(Jobs jobs) const;
  void ScheduleNext();
  // Microseconds from now on, over before the phase is.
  TimePoint For(int64_t least_us, int64_t greatest_us);
  // That lives, if there is one.
  int AnyHost();
  TrainingProcess* AnyTrainer();
  void StopProcess(Process* process, TimePoint until);
  void Disturbed(const Agent* agent, TimePoint until);
  void DisturbedAll(TimePoint until);
  // An agent is silent until then.
  void Silenced(const Agent* agent, TimePoint until);

  void BreakControllerStream();
  void BreakLocalStream();
  void StallControllerStream();
  void StopWorker();
  void StopAgent();
  void StopController();
  void KillWorker();
  void LoseHost();
  void StartAgentAt(int host, TimePoint when);
  void RestartController();
  void RestartAgent();
  void RestartBoth();
  void DataPlane();
  void StaleItem();
  void KillHaltingWorker();
  void RestartWithdrawing();
  void KillLeaver();
  void BreakHaltingLink();
  void EvictPod();
  void KillPod();
  void LosePod();
  void ScaleJob();
  void DeleteJob();

  World* const world_;
  std::vector<const Kind*> enabled_;
  TimePoint until_;
  int64_t mean_gap_us_ = 0;
  std::map<int, int> lives_;  // of agents, by host
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_FAULTS_H_
