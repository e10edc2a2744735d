#include "tests/sim/trainer.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/agent.h"
#include "tests/sim/controller.h"

namespace farandole::sim {

void Trainer::Spawn(World* world, int place) {
  if (!world->agents[HostOf(*world, place)]->process()->alive()) {
    world->simulation.AfterUs(100000, [world, place] { Spawn(world, place); });
    return;
  }
  world->trainers[place] = world->simulation.Keep(std::make_shared<Trainer>(world, place));
  world->trainers[place]->BeginLife();
}

Trainer::Trainer(World* world, int place)
    : world_(world), place_(place), host_(HostOf(*world, place)), process_(world->NewProcess()) {}

void Trainer::BeginLife() {
  Session::Identity identity;
  identity.incarnation = Incarnation(world_->next_incarnation++);
  identity.pid = process_->pid;
  identity.rank = world_->setting.free_ranks ? Rank() : Rank(place_);
  identity.size = world_->setting.workers;
  program_.reset();
  shutting_down_ = false;
  Life::Callbacks callbacks;
  callbacks.on_joined = [this] { Joined(); };
  callbacks.on_answered = [this](std::shared_ptr<Submission> submission) { Answered(*submission); };
  callbacks.on_end = [this] { Ended(); };
  callbacks.on_stopped = [this] { Stopped(); };
  auto life = std::make_shared<Life>(world_, process_, host_, identity, std::move(callbacks));
  life_ = world_->simulation.Keep(life);
  life_->Start();
}

void Trainer::Joined() {
  if (!life_->joined()) return;
  const GenerationId& id = life_->generation();
  const int size = static_cast<int>(life_->session().view().members.size());
  const uint64_t seed = Random(world_->seed ^ (id.controller_incarnation << 20) ^ (id.number << 40)).Next();
  program_.emplace(seed, size, world_->quiet_from <= world_->checker.opened(id));
  ordinals_.clear();
  remaining_.assign(program_->steps(), program_->collectives());
  next_step_ = 0;
  submitting_ = false;
  Advance();
}

void Trainer::Advance() {
  if (shutting_down_ || submitting_) return;
  if (next_step_ == program_->LastStep(life_->session().self().rank.value())) {
    const bool early = next_step_ < program_->steps();
    for (int step = 0; step < next_step_; ++step) {
      if (!early && !StepDone(step)) return;
    }
    process_->AfterUs(world_->random().Skewed(1, 20000), [this, life = life_] {
      if (life == life_) Shutdown();
    });
    return;
  }
  if (!StepDone(next_step_ - program_->depth())) return;
  SubmitStep(next_step_++);
}

void Trainer::SubmitStep(int step) {
  submitting_ = true;
  std::vector<int> order(program_->collectives());
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[world_->random().Below(i)]);
  SubmitOne(step, order, 0);
}

void Trainer::SubmitOne(int step, const std::vector<int>& order, size_t at) {
  int64_t pause_us = at == 0 ? world_->random().Skewed(100, 60000) : world_->random().Skewed(1, 2000);
  if (at == 0 && program_->PausesBefore(step)) pause_us += 40000000;
  process_->AfterUs(pause_us, [this, life = life_, step, order, at] {
    if (life != life_ || shutting_down_) return;
    Request request = program_->Collective(step, order[at], life_->session().self().rank.value());
    uint64_t& ordinal = ordinals_[request.name];
    auto submission =
        std::make_shared<Submission>(std::move(request), ++ordinal, step, program_->Mismatches(step, order[at]));
    const Result result = life_->Submit(submission);
    if (!result.ok()) {
      if (result.code != Code::kPeerLost && result.code != Code::kShutDown) {
        world_->checker.Fail(absl::StrCat("a submission was refused: ", result.text));
      }
      return Shutdown();
    }
    if (world_->random().Percent(2)) SubmitTwice(*submission);
    if (at + 1 < order.size()) return SubmitOne(step, order, at + 1);
    submitting_ = false;
    Advance();
  });
}

void Trainer::SubmitTwice(const Submission& first) {
  if (first.done()) return;
  const Result result = life_->Submit(std::make_shared<Submission>(first.request, first.ordinal, first.step, false));
  if (result.code == Code::kDuplicateName) {
    world_->coverage->Hit("answer duplicate name");
  } else if (result.ok()) {
    world_->checker.Fail(absl::StrCat("a second \"", first.request.name, "\" was taken"));
  }
}

void Trainer::Answered(const Submission& submission) {
  if (!program_ || shutting_down_) return;
  --remaining_[submission.step];
  const Code code = submission.result().code;
  if (code == Code::kOk || code == Code::kMismatch) return Advance();
  process_->AfterUs(world_->random().Skewed(10, 50000), [this, life = life_] {
    if (life == life_) Shutdown();
  });
}

void Trainer::Shutdown() {
  if (shutting_down_) return;
  shutting_down_ = true;
  life_->BeginLeave();
}

void Trainer::Ended() {
  if (life_->session().state() == Session::State::kLeft && program_) {
    bool complete = true;
    for (int step = 0; step < program_->steps(); ++step) complete = complete && StepDone(step);
    if (complete) world_->checker.Finished(life_->generation(), life_->session().self().rank);
  }
  process_->AfterUs(world_->random().Skewed(10, 50000), [this, life = life_] {
    shutting_down_ = true;
    life->Stop();
  });
}

void Trainer::Stopped() {
  if (life_->last_item().index > 0) last_item_ = life_->last_item();
  const bool refused = !life_->joined();
  const int64_t pause_us = refused ? world_->random().Between(50000, 500000) : world_->random().Skewed(10, 100000);
  if (world_->random().Percent(15)) {
    Kill("exited with code 0");
    return;
  }
  process_->AfterUs(pause_us, [this] { BeginLife(); });
}

void Trainer::Kill(const std::string& cause) {
  if (!process_->alive()) return;
  Vanish();
  world_->agents[host_]->ProcessDied(process_, cause);
}

void Trainer::Vanish() {
  if (!process_->alive()) return;
  process_->Kill();
  life_->Vanish();
  world_->simulation.AfterUs(world_->random().Skewed(1000, 2000000),
                             [world = world_, place = place_] { Spawn(world, place); });
}

bool Trainer::StaleItem() {
  if (!process_->alive() || process_->stopped() || last_item_.index == 0) return false;
  if (!life_->ReceiveStale(last_item_)) return false;
  world_->coverage->Hit("stale item ignored");
  world_->controller->HearStale(world_->agents[host_]->id(), life_->incarnation(), last_item_.generation);
  return true;
}

}  // namespace farandole::sim
