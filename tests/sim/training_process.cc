#include "tests/sim/training_process.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/processes/process_end.h"
#include "tests/sim/agent.h"
#include "tests/sim/controller.h"

namespace farandole::sim {

void TrainingProcess::BeginLife(const worker::session::Session::Identity& identity, Life::Callbacks callbacks) {
  auto life = std::make_shared<Life>(world_, process_, host_, identity, std::move(callbacks));
  life_ = world_->simulation.Keep(life);
  process_->Touches(life_, sizeof(Life));
  life_->Start();
}

void TrainingProcess::Exit(int code) { End(code, absl::StrCat("exited with code ", code)); }

void TrainingProcess::KillBy(int signal) {
  End(128 + signal, absl::StrCat("was killed by signal ", signal, " (", agent::processes::SignalName(signal), ")"));
}

void TrainingProcess::End(int code, const std::string& cause) {
  if (!process_->alive()) return;
  code_ = code;
  Vanish();
  world_->agents[host_]->ProcessDied(process_, {static_cast<pid_t>(process_->pid), code, cause});
}

void TrainingProcess::Vanish() {
  if (!process_->alive()) return;
  process_->Kill();
  if (life_ != nullptr) life_->Vanish();
  if (on_end_ == nullptr) return;
  world_->simulation.AfterUs(world_->random().Between(50, 3000), [this] { on_end_(code_); });
}

void TrainingProcess::KeepLastItem() {
  if (life_->last_item().index > 0) last_item_ = life_->last_item();
}

bool TrainingProcess::StaleItem() {
  if (!process_->alive() || process_->stopped() || last_item_.index == 0) return false;
  if (!life_->ReceiveStale(last_item_)) return false;
  world_->coverage->Hit("stale item ignored");
  world_->controller->HearStale(world_->agents[host_]->id(), life_->incarnation(), last_item_.generation);
  return true;
}

}  // namespace farandole::sim
