#ifndef FARANDOLE_TESTS_SIM_POD_H_
#define FARANDOLE_TESTS_SIM_POD_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "agent/processes/supervisor.h"
#include "tests/sim/agent.h"
#include "tests/sim/elastic_trainer.h"
#include "tests/sim/place.h"
#include "tests/sim/world.h"

namespace farandole::sim {

// agent/launch/launch.h of a pod without processes, around the real Supervisor: an agent, and the workers that it has
// started. All of them end together.
class Pod : public Place {
 public:
  // What it exits with when another one has to take its place, as of farandole-agent.
  static constexpr int kRetried = 75;

  // On a host of its own.
  Pod(World* world, const ElasticTrainer::Work& work, int workers);
  void Start(OnEnd on_end) override;

  // SIGTERM.
  void AskToLeave() override;
  // SIGKILL to all of its processes: the kernel closes their connections.
  void Kill() override;
  // Its host loses power.
  void Lose() override;

  int host() const override { return host_; }
  bool OnlyWaits() const override;
  std::string Describe() const override;

 private:
  void Ended(const agent::processes::ProcessEnd& end, const Agent::Ending& ending);
  void Apply(const agent::processes::Supervisor::Step& step);
  void Gone(absl::optional<int> code);

  World* const world_;
  const ElasticTrainer::Work work_;
  const int host_;
  Agent* const agent_;
  agent::processes::Supervisor supervisor_;
  std::map<int64_t, ElasticTrainer*> trainers_;  // that have not ended, by pid
  std::map<int64_t, Rank> slots_;                // of all, by pid
  OnEnd on_end_;
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_POD_H_
