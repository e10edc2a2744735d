#include "controller/job/registration.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole::controller::job {

bool Registration::MayBegin(const GenerationId& generation) const {
  const auto age = [](const GenerationId& id) { return std::make_pair(id.controller_incarnation, id.number); };
  if (generation.number == 0 || generation.controller_incarnation >= config_->controller_incarnation) return false;
  if (stale_->KnowsEnd(generation)) return false;
  return gather_ == nullptr || age(generation) > age(gather_->generation());
}

bool Registration::Concerns(const Hello& hello, TimePoint now, Actions* actions) {
  if (gather_ && hello.generation == gather_->generation()) return true;
  if (gather_ && hello.generation.number == 0) return gather_->HasMember(hello.worker_incarnation);
  if (!MayBegin(hello.generation) || !generations_->Learn(hello.generation.number)) return false;
  TurnAllAway(actions);
  gather_ = std::make_unique<recovery::Gather>(hello.generation, config_->controller_incarnation, now,
                                               config_->give_up_after_ms);
  for (const WorkerEnded& ended : ended_before_) {
    gather_->OnEnded(ended.worker_incarnation, ended.cause, ended.left, actions);
  }
  actions->Because(absl::StrCat("generation ", hello.generation.number, " of controller ",
                                hello.generation.controller_incarnation, " registers"));
  return true;
}

void Registration::OnEnded(const WorkerEnded& ended, bool may_begin, Actions* actions) {
  if (gather_) {
    gather_->OnEnded(ended.worker_incarnation, ended.cause, ended.left, actions);
  } else if (may_begin && ended_before_.size() < static_cast<size_t>(config_->size_max)) {
    ended_before_.push_back(ended);
  }
}

void Registration::TakeCandidates(members::Membership* waiting, Actions* actions) {
  if (!gather_->has_view()) return;
  std::vector<members::Candidate> members;
  for (const members::Candidate& c : waiting->candidates()) {
    if (gather_->HasMember(c.hello.worker_incarnation)) members.push_back(c);
  }
  for (const members::Candidate& c : members) {
    waiting->Drop(c.hello.worker_incarnation);
    if (c.session_open) gather_->OnHello(c.agent_id, c.hello, actions);
  }
}

void Registration::TurnAllAway(Actions* actions) const {
  if (!gather_) return;
  for (const auto& worker : gather_->workers()) {
    if (worker.second.session_open) stale_->TurnAway(worker.second.agent_id, worker.second.hello, actions);
  }
}

void Registration::GiveUp(Actions* actions) {
  TurnAllAway(actions);
  gather_.reset();
}

recovery::Recovery Registration::Finish(members::KeyStore* keys) {
  recovery::Recovery recovery(gather_->Take());
  *keys = std::move(gather_->keys());
  gather_.reset();
  ended_before_.clear();
  return recovery;
}

}  // namespace farandole::controller::job
