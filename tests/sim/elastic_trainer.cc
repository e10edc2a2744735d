#include "tests/sim/elastic_trainer.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole::sim {
namespace {

using worker::completion::Code;

// Labels of one stage; above the bits that ExecutionChecker takes for the index of a call.
constexpr int kLabelShift = 24;

Request RequestOf(std::string name, OpKind op, int64_t elements) {
  Request request;
  request.name = std::move(name);
  request.signature.op = op;
  request.signature.shape = {elements};
  return request;
}

}  // namespace

ElasticTrainer::ElasticTrainer(World* world, int host, const Work& work)
    : TrainingProcess(world, host), work_(work), previous_(world->setting.elastic) {
  state_.run = saved_.run = work.run;
  // Slots, or what a launcher calls so: some have the same number, or none.
  previous_.home = static_cast<uint32_t>(process_->pid % 5);
  world->elastic.Born(process_->pid, absl::StrCat("h", host), work.run);
}

void ElasticTrainer::Start() {
  process_->AfterUs(world_->random().Skewed(1000, 2000000), [this] { Init(); });
}

void ElasticTrainer::Init() {
  worker::session::Session::Identity identity;
  identity.incarnation = Incarnation(world_->next_incarnation++);
  identity.pid = process_->pid;
  identity.size = world_->setting.workers;
  identity.window = world_->setting.window;
  identity.elastic = previous_;
  stage_ = Stage::kStart;
  world_->elastic.Begins(process_->pid, identity.incarnation, identity.elastic);
  Life::Callbacks callbacks;
  callbacks.on_joined = [this] { Joined(); };
  callbacks.on_answered = [this](const worker::session::Operation* const* submissions, size_t count) {
    Answered(submissions, count);
  };
  callbacks.on_end = [this] { Ended(); };
  callbacks.on_stopped = [this] { Stopped(); };
  BeginLife(identity, std::move(callbacks));
}

void ElasticTrainer::Joined() {
  if (!life_->joined()) return;
  first_init_ = false;
  world_->elastic.Joined(process_->pid, life_->generation());
  if (stage_ != Stage::kStart) return;
  label_ = 0;
  Contribution contribution;
  contribution.values[0] = needs_sync_ ? 1 : 0;
  Submit(Stage::kNeedsSync, {RequestOf("elastic.needs_sync", OpKind::kAllreduce, 1)}, contribution);
}

void ElasticTrainer::Submit(Stage stage, const std::vector<Request>& requests, const Contribution& contribution) {
  stage_ = stage;
  label_ += uint64_t{1} << kLabelShift;
  life_->ForgetAnswered();
  Submission::Many submissions;
  for (size_t i = 0; i < requests.size(); ++i) {
    submissions.push_back(
        submissions_.Make(std::make_shared<const Request>(requests[i]), label_ + i + 1, state_.steps, 0, false));
  }
  const std::shared_ptr<worker::session::Operation> last = submissions.back();
  open_ = static_cast<int>(submissions.size());
  if (stage == Stage::kStep) world_->elastic.Steps(life_->generation(), label_, state_);
  world_->carried.Put(life_->generation(), label_, rank(), contribution);
  if (!life_->Submit(std::move(submissions)).ok()) return GoBack();
  if (stage_ == stage && !last->done()) life_->Blocked(Submission::Of(*last));
}

void ElasticTrainer::Answered(const worker::session::Operation* const* submissions, size_t count) {
  if (stage_ == Stage::kStart || stage_ == Stage::kLeave) return;
  for (size_t i = 0; i < count; ++i) {
    if (!submissions[i]->result().ok()) return GoBack();
  }
  open_ -= static_cast<int>(count);
  if (open_ == 0) GoOn();
}

void ElasticTrainer::GoOn() {
  const GenerationId& id = life_->generation();
  switch (stage_) {
    case Stage::kNeedsSync: {
      if (world_->carried.Largest(id, label_)[0] == 0) return Step();
      Contribution contribution;
      contribution.state = state_;
      return Submit(Stage::kSync, {RequestOf("elastic.state", OpKind::kBroadcast, 8)}, contribution);
    }
    case Stage::kSync:
      state_ = world_->carried.OfRoot(id, label_);
      world_->elastic.Synced(process_->pid, id, state_);
      Save();
      return Step();
    case Stage::kStep:
      ++state_.steps;
      return state_.steps % work_.commit_every == 0 || state_.steps >= work_.steps ? Commit() : Step();
    case Stage::kChanges: {
      if (world_->bugs.saved_after_changes) Save();
      world_->elastic.Complete(process_->pid);
      const std::array<int64_t, 2> changes = world_->carried.Largest(id, label_);
      if (changes[0] + changes[1] == 0) return Step();
      world_->coverage->Hit(changes[0] > 0 ? "elastic members let others in" : "elastic members let others go");
      needs_sync_ = changes[0] > 0;
      return Leave();
    }
    default:
      return;
  }
}

void ElasticTrainer::Step() {
  previous_.state_generation = life_->generation().number;
  finished_ = state_.steps >= work_.steps;
  if (finished_) return Leave();
  stage_ = Stage::kCompute;
  process_->AfterUs(world_->random().Skewed(100, work_.compute_us), [this, life = life_] {
    if (life == life_ && stage_ == Stage::kCompute) SubmitStep();
  });
}

void ElasticTrainer::SubmitStep() {
  std::vector<Request> requests;
  for (int i = 0; i < work_.tensors; ++i) requests.push_back(RequestOf(absl::StrCat("t", i), OpKind::kAllreduce, 64));
  Submit(Stage::kStep, requests, {});
}

void ElasticTrainer::Commit() {
  if (!world_->bugs.saved_after_changes) Save();
  const MembershipNotice& notice = life_->session().membership_notice();
  Contribution contribution;
  contribution.values = {notice.added, notice.removed};
  Submit(Stage::kChanges, {RequestOf("elastic.changes", OpKind::kAllreduce, 2)}, contribution);
}

void ElasticTrainer::Save() {
  saved_ = state_;
  world_->elastic.Saved(process_->pid, state_);
}

void ElasticTrainer::GoBack() {
  if (stage_ == Stage::kLeave) return;
  world_->coverage->Hit("elastic member goes back to its commit");
  state_ = saved_;
  needs_sync_ = !world_->bugs.sync_left_out;
  Leave();
}

void ElasticTrainer::Leave() {
  stage_ = Stage::kLeave;
  process_->AfterUs(world_->random().Skewed(10, 50000), [life = life_] { life->BeginLeave(); });
}

void ElasticTrainer::Ended() {
  if (life_->joined()) {
    // The function would learn of it at its next call.
    if (stage_ != Stage::kLeave) GoBack();
    if (previous_.previous_generation == 0) {
      previous_.home = 1 + static_cast<uint32_t>(life_->session().self().local_rank);
    }
    previous_.previous_generation = life_->generation().number;
    previous_.previous_rank = rank();
  }
  process_->AfterUs(world_->random().Skewed(10, 50000), [life = life_] { life->Stop(); });
}

void ElasticTrainer::Stopped() {
  KeepLastItem();
  if (finished_) {
    world_->elastic.Over(process_->pid);
    world_->coverage->Hit("elastic script finished");
    return Exit(0);
  }
  if (!life_->joined()) return AfterInit(life_->session().end());
  process_->AfterUs(world_->random().Skewed(10, 100000), [this] { Init(); });
}

void ElasticTrainer::AfterInit(const worker::completion::Result& end) {
  if (world_->simulation.tracing()) {
    world_->simulation.Trace(absl::StrCat("pid ", process_->pid, " ends init(): ", end.text));
  }
  // Outside of the loop nobody tries again.
  if (end.code == Code::kPeerLost && !first_init_) {
    world_->coverage->Hit("elastic survivor joins once more");
    return process_->AfterUs(world_->random().Skewed(10, 100000), [this] { Init(); });
  }
  world_->elastic.Over(process_->pid);
  Exit(end.code == Code::kRetired ? 0 : 1);
}

void ElasticTrainer::Vanish() {
  world_->elastic.Over(process_->pid);
  TrainingProcess::Vanish();
}

std::string ElasticTrainer::Describe() const {
  std::string text = absl::StrCat("pid ", process_->pid, " on host h", host_, " of run ", work_.run);
  if (!process_->alive()) return absl::StrCat(text, " is dead");
  absl::StrAppend(&text, process_->stopped() ? " stopped" : "", " step ", state_.steps, "/", work_.steps, " stage ",
                  static_cast<int>(stage_));
  if (life_ == nullptr) return absl::StrCat(text, " imports");
  absl::StrAppend(&text, " state ", static_cast<int>(life_->session().state()));
  if (life_->joined()) absl::StrAppend(&text, " generation ", life_->generation().number, " rank ", rank().value());
  return absl::StrCat(text, " open", life_->Unanswered());
}

}  // namespace farandole::sim
