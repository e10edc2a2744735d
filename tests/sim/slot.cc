#include "tests/sim/slot.h"

#include <csignal>
#include <memory>
#include <utility>

#include "absl/types/optional.h"
#include "tests/sim/agent.h"

namespace farandole::sim {

Slot::Slot(World* world, const ElasticTrainer::Work& work, int host)
    : world_(world), trainer_(world->simulation.Keep(std::make_shared<ElasticTrainer>(world, host, work))) {
  world->trainers.push_back(trainer_);
}

void Slot::Start(OnEnd on_end) {
  trainer_->OnEnd([this, on_end = std::move(on_end)](absl::optional<int> code) {
    alive_ = false;
    on_end(code);
  });
  trainer_->Start();
}

void Slot::AskToLeave() {
  if (!alive_ || asked_) return;
  asked_ = true;
  world_->elastic.Asked(trainer_->process()->pid);
  // What the launcher keeps for the next agent of this host, if there is none now.
  world_->retired[host()].insert(trainer_->process()->pid);
  Agent* const agent = world_->agents[host()];
  agent->process()->Run([agent, pid = trainer_->process()->pid] { agent->Retire(pid); });
}

void Slot::Kill() {
  world_->nobody_lost = false;
  trainer_->KillBy(SIGTERM);
}

}  // namespace farandole::sim
