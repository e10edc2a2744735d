#include "tests/sim/trainer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/agent.h"

namespace farandole::sim {

void Trainer::Spawn(World* world, int place) {
  if (!world->agents[HostOf(*world, place)]->process()->alive()) {
    world->simulation.AfterUs(100000, [world, place] { Spawn(world, place); });
    return;
  }
  Trainer* const trainer = world->simulation.Keep(std::make_shared<Trainer>(world, place));
  world->trainers[place] = trainer;
  trainer->BeginLife();
}

Trainer::Trainer(World* world, int place) : TrainingProcess(world, HostOf(*world, place)), place_(place) {}

void Trainer::BeginLife() {
  worker::session::Session::Identity identity;
  identity.incarnation = Incarnation(world_->next_incarnation++);
  identity.pid = process_->pid;
  identity.rank = world_->setting.free_ranks ? Rank() : Rank(place_);
  identity.size = world_->setting.workers;
  identity.window = world_->setting.window;
  if (world_->bugs.final_not_counted) identity.window.final = 64;
  program_ = nullptr;
  shutting_down_ = false;
  Life::Callbacks callbacks;
  callbacks.on_joined = [this] { Joined(); };
  callbacks.on_answered = [this](const worker::session::Operation* const* submissions, size_t count) {
    Answered(submissions, count);
  };
  callbacks.on_end = [this] { Ended(); };
  callbacks.on_stopped = [this] { Stopped(); };
  TrainingProcess::BeginLife(identity, std::move(callbacks));
}

// The same for all members.
std::shared_ptr<const Program> Trainer::TheProgram() {
  const GenerationId& id = life_->generation();
  std::shared_ptr<const Program>& program = world_->programs[{id.controller_incarnation, id.number}];
  if (program != nullptr) return program;
  const int size = static_cast<int>(life_->session().view().members.size());
  const uint64_t seed = Random(world_->seed ^ (id.controller_incarnation << 20) ^ (id.number << 40)).Next();
  if (world_->setting.shape != nullptr) return program = std::make_shared<Program>(seed, *world_->setting.shape);
  return program = std::make_shared<Program>(seed, size, world_->quiet_from <= world_->checker.opened(id));
}

void Trainer::Joined() {
  if (!life_->joined()) return;
  program_ = TheProgram();
  set_ids_.clear();
  statements_ = nullptr;
  last_ = nullptr;
  at_ = 0;
  unanswered_.clear();
  next_step_ = 0;
  pausing_ = false;
  raised_ = false;
  Advance();
}

void Trainer::Advance() {
  while (!shutting_down_ && !pausing_ && !raised_) {
    if (statements_ == nullptr || at_ == statements_->size()) {
      if (next_step_ == program_->LastStep(rank().value())) return AfterProgram();
      LoadStep();
      continue;
    }
    const Statement& statement = (*statements_)[at_];
    if (statement.kind == Statement::Kind::kWait) {
      if (!AnsweredThrough(next_step_ - 1 - statement.back)) {
        if (last_ != nullptr && !last_->done()) life_->Blocked(*last_);
        return;
      }
      ++at_;
      continue;
    }
    if (statement.kind == Statement::Kind::kSubmit && program_->shape().uniform) {
      SubmitNow();
      continue;
    }
    Later(PauseBefore(statement));
  }
}

void Trainer::LoadStep() {
  statements_ = program_->Step(next_step_++, rank().value());
  at_ = 0;
}

void Trainer::AfterProgram() {
  const bool early = next_step_ < program_->steps();
  if (!early && !unanswered_.empty()) return;
  pausing_ = true;
  process_->AfterUs(world_->random().Skewed(1, 20000), [this, life = life_] {
    if (life == life_) Shutdown();
  });
}

int64_t Trainer::PauseBefore(const Statement& statement) {
  if (statement.kind == Statement::Kind::kSubmit) return world_->random().Skewed(1, 2000);
  if (statement.compute_us > 0) return statement.compute_us;
  const int64_t us = world_->random().Skewed(100, program_->shape().compute_us);
  return next_step_ - 1 == program_->shape().pauses_before ? us + 40000000 : us;
}

void Trainer::Later(int64_t pause_us) {
  pausing_ = true;
  process_->AfterUs(pause_us, [this, life = life_] {
    if (life != life_ || shutting_down_ || raised_) return;
    pausing_ = false;
    if ((*statements_)[at_].kind == Statement::Kind::kSubmit) {
      SubmitNow();
    } else {
      ++at_;
    }
    Advance();
  });
}

// Of the step at hand, with the ids of process sets, which the program does not know.
std::shared_ptr<const Request> Trainer::RequestOf(const Call& call) const {
  const OpKind op = call.request.signature.op;
  // Programs keep their uniform steps.
  if (program_->shape().uniform) return {std::shared_ptr<const Request>(), &call.request};
  if (op == OpKind::kAddProcessSet || call.set == 0) return {statements_, &call.request};
  const auto known = set_ids_.find(call.set);
  const uint32_t id = known == set_ids_.end() ? 0 : known->second;
  auto request = std::make_shared<Request>(call.request);
  if (op == OpKind::kRemoveProcessSet) {
    request->signature.shape = {id};
  } else {
    request->signature.process_set = id;
  }
  return request;
}

void Trainer::SubmitNow() {
  const int step = next_step_ - 1;
  life_->ForgetAnswered();
  const bool uniform = program_->shape().uniform;
  Submission::Many submissions;
  submissions.reserve(uniform ? statements_->size() - at_ : 1);
  do {
    const Call& call = (*statements_)[at_++].call;
    submissions.push_back(
        submissions_.Make(RequestOf(call), Program::LabelIn(step, call), step, call.set, call.mismatches));
  } while (uniform && at_ < statements_->size() && (*statements_)[at_].kind == Statement::Kind::kSubmit);
  const worker::session::Operation* const last = submissions.back().get();
  const int count = static_cast<int>(submissions.size());
  const worker::completion::Result result = life_->Submit(std::move(submissions));
  if (!result.ok()) {
    if (result.code != worker::completion::Code::kPeerLost && result.code != worker::completion::Code::kShutDown) {
      world_->checker.Fail(absl::StrCat("a submission was refused: ", result.text));
    }
    return Shutdown();
  }
  last_ = &Submission::Of(*last);
  if (world_->simulation.tracing()) {
    world_->simulation.Trace(absl::StrCat("rank ", rank().value(), " submits ", last_->request.name, " of set ",
                                          last_->script_set, " in step ", step));
  }
  unanswered_[step] += count;
  if (!uniform && world_->random().Percent(2)) SubmitTwice(*last_);
}

void Trainer::SubmitTwice(const Submission& first) {
  if (first.done()) return;
  const worker::completion::Result result =
      life_->Submit({submissions_.Make(first.shared_request, first.label, first.step, first.script_set, false)});
  if (result.code == worker::completion::Code::kDuplicateName) {
    world_->coverage->Hit("answer duplicate name");
  } else if (result.ok()) {
    world_->checker.Fail(absl::StrCat("a second \"", first.request.name, "\" was taken"));
  }
}

void Trainer::Answered(const worker::session::Operation* const* submissions, size_t count) {
  // One that is not yet, of those submitted last, is still the last.
  if (last_ != nullptr && last_->done()) last_ = nullptr;
  if (program_ == nullptr || shutting_down_) return;
  bool goes_on = false;
  for (size_t i = 0, end; i < count; i = end) {
    const int step = Submission::Of(*submissions[i]).step;
    for (end = i; end < count && Submission::Of(*submissions[end]).step == step; ++end) {
      const Submission& submission = Submission::Of(*submissions[end]);
      const bool nothing_to_learn = submission.code() == worker::completion::Code::kOk && submission.script_set == 0;
      if (nothing_to_learn || Answered(submission)) goes_on = true;
    }
    const auto open = unanswered_.find(step);
    if ((open->second -= static_cast<int>(end - i)) == 0) unanswered_.erase(open);
  }
  if (goes_on) Advance();
}

bool Trainer::Answered(const Submission& submission) {
  const worker::completion::Code code = submission.code();
  if (code == worker::completion::Code::kOk && submission.script_set != 0 &&
      submission.request.signature.op == OpKind::kAddProcessSet) {
    set_ids_[submission.script_set] = static_cast<uint32_t>(submission.value);
  }
  if (code == worker::completion::Code::kOk || code == worker::completion::Code::kMismatch) return true;
  raised_ = true;
  process_->AfterUs(world_->random().Skewed(10, 50000), [this, life = life_] {
    if (life == life_) Shutdown();
  });
  return false;
}

std::string Trainer::Describe() const {
  if (!process_->alive()) return absl::StrCat("place ", place_, " is dead");
  std::string text = absl::StrCat("place ", place_, " pid ", process_->pid);
  if (process_->stopped()) absl::StrAppend(&text, " stopped");
  if (life_ == nullptr || !life_->joined() || program_ == nullptr) return absl::StrCat(text, " has not joined");
  absl::StrAppend(&text, " rank ", rank().value(), " step ", next_step_ - 1, " statement ", at_, "/",
                  statements_ == nullptr ? 0 : statements_->size(), " open", life_->Unanswered());
  return text;
}

void Trainer::Shutdown() {
  if (shutting_down_) return;
  shutting_down_ = true;
  life_->BeginLeave();
  if (!life_->session().executing() || world_->on_busy_leave == nullptr) return;
  std::exchange(world_->on_busy_leave, nullptr)(this);
}

void Trainer::Ended() {
  if (life_->session().state() == worker::session::Session::State::kLeft && program_ != nullptr) {
    const bool complete =
        next_step_ == program_->steps() && statements_ != nullptr && at_ == statements_->size() && unanswered_.empty();
    if (complete) world_->checker.Finished(life_->generation(), life_->session().self().rank);
  }
  process_->AfterUs(world_->random().Skewed(10, 50000), [this, life = life_] {
    shutting_down_ = true;
    life->Stop();
  });
}

void Trainer::Stopped() {
  KeepLastItem();
  const bool refused = !life_->joined();
  const int64_t pause_us = refused ? world_->random().Between(50000, 500000) : world_->random().Skewed(10, 100000);
  if (world_->random().Percent(15)) {
    Exit(0);
    return;
  }
  process_->AfterUs(pause_us, [this] { BeginLife(); });
}

void Trainer::Vanish() {
  if (!process_->alive()) return;
  TrainingProcess::Vanish();
  world_->simulation.AfterUs(world_->random().Skewed(1000, 2000000),
                             [world = world_, place = place_] { Spawn(world, place); });
}

}  // namespace farandole::sim
