#include "tests/sim/pod.h"

#include <algorithm>
#include <csignal>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/controller.h"

namespace farandole::sim {
namespace {

agent::processes::Supervisor::Plan PlanOf(const World& world, int host, int workers) {
  agent::processes::Supervisor::Plan plan;
  plan.workers = workers;
  plan.host = absl::StrCat("h", host);
  plan.code_of_others = Pod::kRetried;
  plan.elastic = true;
  plan.leave_ms = world.setting.leave_ms;
  return plan;
}

Agent* NewAgent(World* world, const std::string& run) {
  const int host = static_cast<int>(world->agents.size());
  world->stores.emplace_back();
  world->agents.push_back(world->simulation.Keep(std::make_shared<Agent>(world, host, 0, run)));
  return world->agents.back();
}

}  // namespace

Pod::Pod(World* world, const ElasticTrainer::Work& work, int workers)
    : world_(world),
      work_(work),
      host_(static_cast<int>(world->agents.size())),
      agent_(NewAgent(world, work.run)),
      supervisor_(PlanOf(*world, host_, workers)) {
  for (int slot = 0; slot < workers; ++slot) {
    ElasticTrainer* const trainer = world->simulation.Keep(std::make_shared<ElasticTrainer>(world, host_, work));
    world->trainers.push_back(trainer);
    trainers_[trainer->process()->pid] = trainer;
    slots_[trainer->process()->pid] = Rank(slot);
  }
}

void Pod::Start(OnEnd on_end) {
  on_end_ = std::move(on_end);
  agent_->OnProcessEnd(
      [this](const agent::processes::ProcessEnd& end, const Agent::Ending& ending) { Ended(end, ending); });
  agent_->Start();
  for (const auto& trainer : trainers_) trainer.second->Start();
}

void Pod::AskToLeave() {
  if (!alive_ || asked_) return;
  asked_ = true;
  for (const auto& trainer : trainers_) world_->elastic.Asked(trainer.first);
  agent_->process()->Run([this] { Apply(supervisor_.AskedToLeave(world_->simulation.now())); });
}

void Pod::Ended(const agent::processes::ProcessEnd& end, const Agent::Ending& ending) {
  trainers_.erase(end.pid);
  degraded_ = degraded_ || (end.code != 0 && !trainers_.empty());
  agent::processes::WorkerEnd worker;
  worker.rank = slots_[end.pid];
  worker.process = end;
  worker.without_leaving = ending.without_leaving;
  worker.finished = ending.finished;
  Apply(supervisor_.Ended(worker, world_->simulation.now()));
}

void Pod::Apply(const agent::processes::Supervisor::Step& step) {
  if (step.signal != 0) agent_->ToldToEnd();
  const std::map<int64_t, ElasticTrainer*> trainers = trainers_;
  for (const auto& [pid, trainer] : trainers) {
    if (step.retire) agent_->Retire(pid);
    if (step.signal == 0) continue;
    world_->coverage->Hit("pod ends its workers");
    world_->nobody_lost = false;
    trainer->KillBy(step.signal);
  }
  const TimePoint deadline = supervisor_.NextDeadline();
  if (deadline != TimePoint::Infinite()) {
    agent_->process()->At(deadline, [this, deadline] {
      if (supervisor_.NextDeadline() == deadline) Apply(supervisor_.Tick(world_->simulation.now()));
    });
  }
  if (!step.finished) return;
  agent_->Finish();
  Gone(step.exit_code);
}

void Pod::Kill() {
  if (!alive_) return;
  agent_->Crash();
  for (const auto& trainer : trainers_) trainer.second->Vanish();
  Gone(absl::nullopt);
}

void Pod::Lose() {
  if (!alive_) return;
  agent_->Vanish();
  for (const auto& trainer : trainers_) trainer.second->Vanish();
  Gone(absl::nullopt);
}

void Pod::Gone(absl::optional<int> code) {
  alive_ = false;
  // Its agent may be given up, however late the controller is.
  world_->controller->Disturbed(agent_->host(), world_->simulation.now().PlusMs(1000000));
  on_end_(code);
}

bool Pod::OnlyWaits() const {
  return std::none_of(trainers_.begin(), trainers_.end(), [](const auto& entry) { return entry.second->was_member(); });
}

std::string Pod::Describe() const {
  std::string text = absl::StrCat("pod h", host_, " of run ", work_.run, asked_ ? " asked to leave" : "");
  for (const auto& trainer : trainers_) absl::StrAppend(&text, "; ", trainer.second->Describe());
  return text;
}

}  // namespace farandole::sim
