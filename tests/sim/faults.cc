#include "tests/sim/faults.h"

#include <csignal>
#include <iterator>
#include <memory>

#include "absl/strings/str_cat.h"
#include "tests/sim/agent.h"
#include "tests/sim/cluster.h"
#include "tests/sim/controller.h"
#include "tests/sim/training_process.h"

namespace farandole::sim {

namespace {

// A controller that starts again goes on with the generation of the one before it.
constexpr bool kRecovers = true;

}  // namespace

const Faults::Kind Faults::kKinds[] = {
    {"break controller stream", &Faults::BreakControllerStream, Jobs::kAll},
    {"break local stream", &Faults::BreakLocalStream, Jobs::kAll},
    {"stall controller stream", &Faults::StallControllerStream, Jobs::kAll},
    {"stop worker", &Faults::StopWorker, Jobs::kAll},
    {"stop agent", &Faults::StopAgent, Jobs::kAll},
    {"stop controller", &Faults::StopController, Jobs::kAll},
    {"kill worker", &Faults::KillWorker, Jobs::kAll},
    {"lose host", &Faults::LoseHost, Jobs::kOfHosts},
    {"restart controller", &Faults::RestartController, Jobs::kAll},
    {"restart agent", &Faults::RestartAgent, Jobs::kOfHosts},
    {"restart controller and agent", &Faults::RestartBoth, Jobs::kOfHosts},
    {"data plane", &Faults::DataPlane, Jobs::kAll},
    {"stale item", &Faults::StaleItem, Jobs::kAll},
    {"kill halting worker", &Faults::KillHaltingWorker, Jobs::kAll},
    {"restart withdrawing controller", &Faults::RestartWithdrawing, Jobs::kAll},
    {"kill leaver inside a batch", &Faults::KillLeaver, Jobs::kAll},
    {"break link of halting worker", &Faults::BreakHaltingLink, Jobs::kAll},
    {"evict pod", &Faults::EvictPod, Jobs::kElastic},
    {"kill pod", &Faults::KillPod, Jobs::kOfPods},
    {"lose pod", &Faults::LosePod, Jobs::kOfPods},
    {"scale job", &Faults::ScaleJob, Jobs::kElastic},
    {"delete job", &Faults::DeleteJob, Jobs::kOfPods},
};

void Faults::Start() {
  Random& random = world_->random();
  // None, about one kind, many, or one kind for a long time: what one kind does is easily hidden by others.
  const uint64_t mixture = random.Below(10);
  const uint64_t percent = mixture == 0 ? 0 : mixture < 6 ? 12 : random.Between(20, 80);
  const bool alone = mixture == 9;
  const Kind* only = &kKinds[random.Below(std::size(kKinds))];
  while (!Happens(only->jobs)) only = &kKinds[random.Below(std::size(kKinds))];
  bool forgets = false;
  const bool elastic = world_->cluster != nullptr;
  for (const Kind& kind : kKinds) {
    if (!Happens(kind.jobs) || (alone ? &kind != only : !random.Percent(percent))) continue;
    enabled_.push_back(&kind);
    // What became of workers is known to nobody, unless somebody keeps it.
    const bool agent = kind.fault == &Faults::RestartAgent || kind.fault == &Faults::RestartBoth;
    forgets = forgets || kind.fault == &Faults::LoseHost || (agent && !world_->setting.launcher_store);
  }
  const TimePoint now = world_->simulation.now();
  until_ = now.PlusMs(alone ? 20000 : random.Skewed(200, random.Percent(20) ? 80000 : 8000));
  mean_gap_us_ = random.Skewed(3000, 2000000);
  // What is left behind is given up after 30 s.
  // Pods that are asked to leave take their time, too.
  world_->quiet_from = until_.PlusMs(forgets || elastic ? 33000 + world_->setting.leave_ms : 1000);
  if (!enabled_.empty()) ScheduleNext();
}

bool Faults::Happens(Jobs jobs) const {
  const bool elastic = world_->cluster != nullptr;
  const bool pods = elastic && !world_->setting.launched;
  switch (jobs) {
    case Jobs::kOfHosts:
      return !pods;
    case Jobs::kElastic:
      return elastic;
    case Jobs::kOfPods:
      return pods;
    default:
      return true;
  }
}

void Faults::Survivable(int number) {
  constexpr Fault kSurvivable[] = {&Faults::BreakControllerStream, &Faults::BreakLocalStream, &Faults::StopWorker,
                                   &Faults::StopController, &Faults::RestartAgent};
  until_ = world_->simulation.now().PlusMs(100);
  (this->*kSurvivable[number % std::size(kSurvivable)])();
}

void Faults::ScheduleNext() {
  world_->simulation.AfterUs(world_->random().Between(1, 2 * mean_gap_us_), [this] {
    if (until_ <= world_->simulation.now()) return;
    const Kind* kind = enabled_[world_->random().Below(enabled_.size())];
    if (world_->simulation.tracing()) world_->simulation.Trace(absl::StrCat("fault: ", kind->name));
    world_->coverage->Hit(absl::StrCat("fault ", kind->name));
    (this->*kind->fault)();
    ScheduleNext();
  });
}

TimePoint Faults::For(int64_t least_us, int64_t greatest_us) {
  const TimePoint end(world_->simulation.now().ns() + 1000 * world_->random().Skewed(least_us, greatest_us));
  return end < until_ ? end : until_;
}

int Faults::AnyHost() {
  const std::vector<Agent*>& all = world_->agents;
  std::vector<int> living;
  for (size_t host = 0; world_->cluster != nullptr && host < all.size(); ++host) {
    if (all[host]->process()->alive()) living.push_back(static_cast<int>(host));
  }
  return living.empty() ? static_cast<int>(world_->random().Below(all.size()))
                        : living[world_->random().Below(living.size())];
}

TrainingProcess* Faults::AnyTrainer() {
  std::vector<TrainingProcess*> living;
  for (TrainingProcess* trainer : world_->trainers) {
    if (world_->cluster != nullptr && trainer->process()->alive() && trainer->life() != nullptr) {
      living.push_back(trainer);
    }
  }
  const std::vector<TrainingProcess*>& all = living.empty() ? world_->trainers : living;
  return all[world_->random().Below(all.size())];
}

void Faults::Disturbed(const Agent* agent, TimePoint until) {
  world_->controller->Disturbed(agent->host(), until);
  world_->elastic.Excuse(agent->host(), until);
}

void Faults::DisturbedAll(TimePoint until) {
  world_->elastic.ExcuseController(until);
  for (const Agent* agent : world_->agents) world_->controller->Disturbed(agent->host(), until);
}

void Faults::Silenced(const Agent* agent, TimePoint until) {
  // That of a pod is given up 2 s after its connection was closed, which may happen meanwhile.
  const int64_t borne_with_ms = Happens(Jobs::kOfHosts) ? 25000 : 1000;
  if (until.MsSince(world_->simulation.now()) > borne_with_ms) world_->nobody_lost = false;
  Disturbed(agent, until);
}

void Faults::StopProcess(Process* process, TimePoint until) {
  if (process->stopped()) return;
  process->Stop();
  world_->simulation.At(until, [process] { process->Continue(); });
}

void Faults::BreakControllerStream() {
  Agent* agent = world_->agents[AnyHost()];
  const TimePoint late = world_->simulation.now().PlusMs(world_->random().Between(1, 900));
  agent->BreakStream(late);
  Disturbed(agent, late);
}

void Faults::BreakLocalStream() {
  TrainingProcess* trainer = AnyTrainer();
  if (!trainer->process()->alive() || trainer->life() == nullptr) return;
  const TimePoint until = For(1000, 500000);
  trainer->life()->BreakLink(until);
  world_->elastic.Excuse(world_->agents[trainer->host()]->host(), until);
}

void Faults::StallControllerStream() {
  Agent* agent = world_->agents[AnyHost()];
  const TimePoint until = For(100, 45000000);
  agent->StallStream(until);
  Silenced(agent, until);
}

void Faults::StopWorker() {
  TrainingProcess* trainer = AnyTrainer();
  const TimePoint until = For(100, 45000000);
  StopProcess(trainer->process(), until);
  world_->elastic.Excuse(world_->agents[trainer->host()]->host(), until);
}

void Faults::StopAgent() {
  Agent* agent = world_->agents[AnyHost()];
  const TimePoint until = For(100, 45000000);
  StopProcess(agent->process(), until);
  Silenced(agent, until);
}

void Faults::StopController() {
  if (!world_->controller->running()) return;
  const TimePoint until = For(100, 20000000);
  StopProcess(world_->controller->process(), until);
  DisturbedAll(until);
}

void Faults::KillWorker() {
  world_->nobody_lost = false;
  AnyTrainer()->KillBy(SIGKILL);
}

void Faults::KillHaltingWorker() {
  world_->on_halt = [this](const Process* process) {
    if (until_ <= world_->simulation.now()) return;
    for (TrainingProcess* trainer : world_->trainers) {
      if (trainer->process() != process) continue;
      world_->nobody_lost = false;
      trainer->KillBy(SIGKILL);
    }
  };
}

void Faults::RestartWithdrawing() {
  world_->on_withdraw = [this] {
    if (until_ <= world_->simulation.now()) return;
    world_->coverage->Hit("controller restarted at a Withdraw");
    RestartController();
  };
}

void Faults::KillLeaver() {
  world_->on_busy_leave = [this](TrainingProcess* trainer) {
    if (until_ <= world_->simulation.now()) return;
    world_->nobody_lost = false;
    trainer->process()->AfterUs(world_->random().Skewed(1, 20000), [trainer] { trainer->KillBy(SIGKILL); });
  };
}

void Faults::BreakHaltingLink() {
  world_->on_halt = [this](const Process* process) {
    if (until_ <= world_->simulation.now()) return;
    for (TrainingProcess* trainer : world_->trainers) {
      if (trainer->process() == process) trainer->life()->BreakLink(For(1000, 500000));
    }
  };
}

void Faults::LoseHost() {
  const int host = AnyHost();
  Agent* agent = world_->agents[host];
  if (!agent->process()->alive()) return;
  world_->nobody_lost = false;
  agent->Vanish();
  for (TrainingProcess* trainer : world_->trainers) {
    if (trainer->host() == host) trainer->Vanish();
  }
  Disturbed(agent, agent->HeardUntil().PlusMs(40000));
  world_->stores[host].clear();
  ++lives_[host];
  StartAgentAt(host, For(10000, 5000000));
}

void Faults::StartAgentAt(int host, TimePoint when) {
  world_->simulation.At(when, [world = world_, host, life = lives_[host]] {
    world->agents[host] = world->simulation.Keep(std::make_shared<Agent>(world, host, life));
    world->agents[host]->Start();
  });
}

void Faults::RestartAgent() {
  const int host = AnyHost();
  Agent* agent = world_->agents[host];
  if (!agent->process()->alive()) return;
  agent->Crash();
  const TimePoint until = For(1000, 5000000);
  Disturbed(agent, world_->setting.launcher_store ? until : until.PlusMs(40000));
  // Without anybody who keeps it the next one is another agent, and who ended meanwhile is given up in time.
  if (!world_->setting.launcher_store) {
    world_->nobody_lost = false;
    world_->stores[host].clear();
    ++lives_[host];
  }
  StartAgentAt(host, until);
}

void Faults::RestartBoth() {
  RestartController();
  RestartAgent();
}

void Faults::RestartController() {
  if (!world_->controller->running()) return;
  if (!kRecovers) world_->nobody_lost = false;
  world_->controller->Crash();
  const TimePoint until = For(1000, 5000000);
  DisturbedAll(until);
  world_->simulation.At(until, [world = world_] { world->controller->Start(); });
  if (world_->random().Percent(60)) return;
  // The new one has to wait for the workers of one agent, while others go on.
  Agent* agent = world_->agents[AnyHost()];
  const TimePoint late = std::min(until_, until.PlusMs(world_->random().Between(1, 3000)));
  StopProcess(agent->process(), late);
  Silenced(agent, late);
}

void Faults::DataPlane() {
  TrainingProcess* trainer = AnyTrainer();
  if (!trainer->process()->alive() || trainer->life() == nullptr) return;
  world_->nobody_lost = false;
  trainer->life()->FailDataPlane();
}

void Faults::StaleItem() { AnyTrainer()->StaleItem(); }

void Faults::EvictPod() { world_->cluster->Evict(); }

void Faults::KillPod() { world_->cluster->KillPod(); }

void Faults::LosePod() { world_->cluster->LosePod(); }

void Faults::ScaleJob() { world_->cluster->Scale(); }

void Faults::DeleteJob() { world_->cluster->DeleteJob(); }

}  // namespace farandole::sim
