#include "controller/job/joining.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/job/job_report.h"
#include "controller/types/job_settings.h"

namespace farandole::controller::job {
namespace {

constexpr int kMissingRanksMax = 16;
// Of which one is enough for a refusal.
constexpr size_t kEndedRanksMax = 16;
// Of runs that come one after the other; pods of older ones have had time to end.
constexpr size_t kFinishedRunsMax = 16;
constexpr char kTwoRunsText[] = "a run of this job goes on, and another one waits for its end already";
constexpr char kRetiredText[] = "its place in the job was taken away";

// Why a joiner cannot have a rank after the present generation; "" if it can.
std::string HeldText(const Hello& hello, const members::Roster& roster) {
  if (hello.rank.known()) {
    if (hello.rank.value() >= roster.size() || roster.seat(hello.rank).gone()) return "";
    return members::RankHeldText(roster.seat(hello.rank).member);
  }
  if (roster.left_count() > 0) return "";
  return absl::StrCat("all ", roster.size(), " ranks are held by live processes; the first is ",
                      Describe(roster.seat(Rank(0)).member));
}

}  // namespace

void Joining::OnAgent(uint64_t welcomed_by, TimePoint now) {
  const bool by_another = welcomed_by != 0 && welcomed_by != config_->controller_incarnation;
  if (begun_ || took_over_) return;
  if (by_another) {
    took_over_ = true;
    // Who lives connects again by itself; who does not for so long is suspect anyway.
    held_until_ = now.PlusMs(config_->suspect_after_ms);
  } else if (config_->serves_since && now < config_->serves_since->PlusMs(config_->connect_again_ms)) {
    held_until_ = config_->serves_since->PlusMs(config_->connect_again_ms);
  }
}

void Joining::OnHello(const std::string& agent_id, const Hello& hello, const Present& present, TimePoint now,
                      Actions* actions) {
  // A newer one it cannot have had.
  const uint64_t newest_possible = std::min(hello.elastic.previous_generation, generations_->last());
  if (hello.elastic.state_generation <= newest_possible) elastic_.SaysHello(agent_id, hello);
  const bool leaves = elastic_.retired(hello.worker_incarnation) && !elastic_.Needed(agent_id, hello.pid);
  const bool survives = hello.elastic.min_size > 0 && hello.elastic.previous_generation > 0;
  if (survives && present.roster == nullptr && !AnySurvives(waiting_) && !leaves &&
      TooLate(agent_id, hello) == nullptr && RefusalOf(hello, Present()).empty()) {
    // Whoever has come before it since the controller was started again is of another run, or new.
    RunGoesOn(agents_->Run(agent_id), actions);
  }
  members::Membership* const place =
      hello.elastic.min_size > 0 ? PlaceOf(agents_->Run(agent_id), present, now) : &waiting_;
  const std::string reason = RefusalOf(hello, place == &waiting_ ? present : Present());
  if (leaves) return TurnAway(agent_id, hello, kRetiredText, actions);
  if (!reason.empty()) return Refuse(agent_id, hello, reason, actions);
  if (const FinishedRun* finished = TooLate(agent_id, hello)) {
    return TurnAway(agent_id, hello, finished->text, actions);
  }
  // Another attempt may help.
  if (place == nullptr) return Refuse(agent_id, hello, kTwoRunsText, actions, RemovedKind::kPeerLost);
  const members::Membership::Answer answer = place->Join(hello, agent_id, agents_->Host(agent_id), now);
  switch (answer.admission) {
    case members::Membership::Admission::kAdmitted:
      // Another process than the one that was started for it.
      ended_ranks_.erase(std::remove_if(ended_ranks_.begin(), ended_ranks_.end(),
                                        [&hello](const auto& ended) { return ended.first == hello.rank; }),
                         ended_ranks_.end());
      if (const std::string why = WhyInVain(); !why.empty()) return RefuseAll(why, actions);
      if (place == &next_) {
        actions->Because(absl::StrCat("pid ", hello.pid, " on host ", agents_->Host(agent_id),
                                      " waits for the end of another run of the job"));
        return actions->ToWorker(agent_id, hello.worker_incarnation,
                                 farandole::Welcome{hello.session, config_->controller_incarnation, {}});
      }
      return Welcome(agent_id, hello, present.runs, actions);
    case members::Membership::Admission::kRefused:
      return Refuse(agent_id, hello, answer.reason, actions);
    case members::Membership::Admission::kIgnored:
      return;
  }
}

members::Membership* Joining::PlaceOf(const std::string& run, const Present& present, TimePoint now) {
  BeginNextRun(present, now);
  if (run_ != run && IsVacant(present)) run_ = run;
  if (run_ == run) return &waiting_;
  if (next_.candidates().empty()) next_run_ = run;
  return next_run_ == run ? &next_ : nullptr;
}

bool Joining::IsVacant(const Present& present) const {
  return !present.runs && waiting_.candidates().empty() && !elastic_.AwaitsAny();
}

void Joining::BeginNextRun(const Present& present, TimePoint now) {
  if (next_.candidates().empty() || !IsVacant(present)) return;
  std::swap(waiting_, next_);
  std::swap(run_, next_run_);
  // There may be room for more of them only from now on.
  waiting_.ArriveAt(now);
}

void Joining::RunGoesOn(const std::string& run, Actions* actions) {
  if (run == run_) return;
  // One place for those of other runs.
  if (!next_.candidates().empty() && next_run_ != run) RefuseAll(kTwoRunsText, actions);
  if (next_.candidates().empty() || next_run_ == run) {
    std::swap(waiting_, next_);
    next_run_ = run_;
  }
  run_ = run;
}

bool Joining::AnySurvives(const members::Membership& place) {
  return std::any_of(place.candidates().begin(), place.candidates().end(),
                     [](const members::Candidate& c) { return c.has_been_member(); });
}

const members::Candidate* Joining::Find(Incarnation worker) const {
  const members::Candidate* const found = waiting_.Find(worker);
  return found != nullptr ? found : next_.Find(worker);
}

// Why it cannot even wait; "" if it can.
std::string Joining::RefusalOf(const Hello& hello, const Present& present) {
  if (!generations_->Learn(hello.elastic.previous_generation)) {
    return absl::StrCat("it says that it was in generation ", hello.elastic.previous_generation,
                        ", which is impossible; the last generation of this job is ", generations_->last());
  }
  if (hello.elastic.state_generation > hello.elastic.previous_generation) {
    return absl::StrCat("it says that it had the state in generation ", hello.elastic.state_generation,
                        ", which is impossible; the last one that it was in is ", hello.elastic.previous_generation);
  }
  if (present.runs) {
    const std::string held = elastic() ? elastic_.Unlike(hello) : HeldText(hello, *present.roster);
    if (!held.empty()) return held;
  }
  JobSettings settings;
  return std::string(ReadSettings(hello.variables, &settings).message());
}

void Joining::Refuse(const std::string& agent_id, const Hello& hello, const std::string& reason, Actions* actions,
                     RemovedKind kind) const {
  actions->ToWorker(agent_id, hello.worker_incarnation, Removed{{}, kind, reason});
  actions->Because(absl::StrCat("pid ", hello.pid, " on host ", agents_->Host(agent_id), " was refused: ", reason));
}

void Joining::Welcome(const std::string& agent_id, const Hello& hello, bool runs, Actions* actions) const {
  farandole::Welcome welcome{hello.session, config_->controller_incarnation, {}};
  const std::string who = absl::StrCat("pid ", hello.pid, " on host ", agents_->Host(agent_id), " waits to join as ");
  const size_t count = waiting_.candidates().size();
  if (waiting_.elastic()) {
    if (!runs) welcome.waiting = static_cast<uint32_t>(count);
    if (!runs) welcome.needed = static_cast<uint32_t>(hello.elastic.min_size);
    actions->Because(absl::StrCat(who, "any rank, ", count, " wait"));
  } else {
    welcome.missing_ranks = waiting_.Missing(kMissingRanksMax);
    actions->Because(absl::StrCat(who, hello.rank.known() ? absl::StrCat("rank ", hello.rank.value()) : "any rank",
                                  ", ", count, " of ", waiting_.size()));
  }
  actions->ToWorker(agent_id, hello.worker_incarnation, std::move(welcome));
}

void Joining::TurnAway(const std::string& agent_id, const Hello& hello, const std::string& reason, Actions* actions) {
  elastic_.Lost(agent_id, hello.pid);
  waiting_.Drop(hello.worker_incarnation);
  next_.Drop(hello.worker_incarnation);
  actions->ToWorker(agent_id, hello.worker_incarnation, Removed{{}, RemovedKind::kRetired, reason});
  actions->Because(absl::StrCat("pid ", hello.pid, " on host ", agents_->Host(agent_id), " is not let in: ", reason));
}

const FinishedRun* Joining::FindFinished(const std::string& run) const {
  const auto it =
      std::find_if(finished_.begin(), finished_.end(), [&run](const FinishedRun& known) { return known.run == run; });
  return it == finished_.end() ? nullptr : &*it;
}

const FinishedRun* Joining::TooLate(const std::string& agent_id, const Hello& hello) const {
  const uint64_t previous = hello.elastic.previous_generation;
  if (hello.elastic.min_size == 0 || (previous != 0 && previous == generations_->last())) return nullptr;
  return FindFinished(agents_->Run(agent_id));
}

void Joining::Finish(const std::string& agent_id, const WorkerEnded& ended, Actions* actions) {
  const std::string run = agents_->Run(agent_id);
  if (run.empty() || FindFinished(run) != nullptr) return;
  const std::string text =
      absl::StrCat("the job is over: pid ", ended.pid, " on host ", agents_->Host(agent_id), " has finished");
  finished_.push_back({run, text});
  if (finished_.size() > kFinishedRunsMax) finished_.pop_front();
  actions->Because(text);
  std::vector<members::Candidate> candidates = waiting_.candidates();
  candidates.insert(candidates.end(), next_.candidates().begin(), next_.candidates().end());
  for (const members::Candidate& c : candidates) {
    if (TooLate(c.agent_id, c.hello) != nullptr) TurnAway(c.agent_id, c.hello, text, actions);
  }
}

void Joining::OnRetire(const std::string& agent_id, const Retire& retire, const Present& present, Actions* actions) {
  const Incarnation worker = retire.worker_incarnation;
  if (!elastic_.Retire(worker)) return;
  if (const members::Candidate* candidate = Find(worker)) {
    if (candidate->agent_id != agent_id) return;
    const Hello hello = candidate->hello;
    elastic_.ToLeave(agent_id, hello.pid);
    if (!elastic_.Needed(agent_id, hello.pid)) TurnAway(agent_id, hello, kRetiredText, actions);
    return;
  }
  const auto rank = present.roster == nullptr ? absl::nullopt : present.roster->Find(worker);
  if (!rank || present.roster->seat(*rank).agent_id != agent_id) return;
  elastic_.ToLeave(agent_id, present.roster->seat(*rank).member.pid);
  if (present.runs) actions->Because(absl::StrCat(Describe(present.roster->seat(*rank).member), " is to leave"));
}

void Joining::OnRankEnded(const std::string& agent_id, const WorkerEnded& ended, Actions* actions) {
  if (!ended.rank.known() || waiting_.Waits(ended.rank) || ended_ranks_.size() >= kEndedRanksMax) return;
  ended_ranks_.emplace_back(
      ended.rank, absl::StrCat("rank ", ended.rank.value(), " (pid ", ended.pid, " on host ", agents_->Host(agent_id),
                               ") ", ended.cause, ", so that nobody calls init() for it"));
  if (const std::string why = WhyInVain(); !why.empty()) RefuseAll(why, actions);
}

std::string Joining::WhyInVain() const {
  if (waiting_.elastic()) return "";
  for (const auto& [rank, text] : ended_ranks_) {
    if (rank.value() < waiting_.size()) return text;
  }
  return "";
}

// Another process has failed them, as when a member is lost: it is not their fault.
void Joining::RefuseAll(const std::string& reason, Actions* actions) {
  const std::vector<members::Candidate> candidates = waiting_.candidates();
  for (const members::Candidate& c : candidates) {
    waiting_.Drop(c.hello.worker_incarnation);
    Refuse(c.agent_id, c.hello, reason, actions, RemovedKind::kPeerLost);
  }
}

bool Joining::OnEnded(const std::string& agent_id, const WorkerEnded& ended, Actions* actions) {
  if (!ended.lives) {
    elastic_.Lost(agent_id, ended.pid);
    elastic_.Forget(ended.worker_incarnation);
    if (ended.finished) Finish(agent_id, ended, actions);
  }
  const members::Candidate* const candidate = Find(ended.worker_incarnation);
  if (candidate == nullptr) return false;
  if (ended.left || candidate->agent_id != agent_id) return true;
  actions->Because(absl::StrCat("pid ", candidate->hello.pid, " on host ", candidate->host, " ", ended.cause,
                                " while it waited to join"));
  waiting_.Drop(ended.worker_incarnation);
  next_.Drop(ended.worker_incarnation);
  return true;
}

void Joining::OnAgentLost(const std::string& agent_id) {
  waiting_.DropAgent(agent_id);
  next_.DropAgent(agent_id);
  elastic_.LostAgent(agent_id);
}

std::vector<members::Candidate> Joining::Choose(const Present& present, bool occupied, TimePoint now) {
  if (present.roster != nullptr) elastic_.Over(present.roster->all_let_go(), generations_->last(), now);
  BeginNextRun(present, now);
  if (held_until_ && *held_until_ <= now) held_until_.reset();
  if (!waiting_.elastic()) {
    return !occupied && waiting_.Complete() ? waiting_.Take() : std::vector<members::Candidate>();
  }
  if (held_until_) return {};
  const std::vector<Incarnation> chosen = elastic_.Choose(waiting_, now);
  return chosen.empty() ? std::vector<members::Candidate>() : waiting_.Take(chosen);
}

void Joining::Begun(const std::vector<members::Candidate>& members, const members::Roster& roster) {
  elastic_.Begun(members.front().hello.elastic, members.front().hello.size, roster.members());
  for (const members::Candidate& c : members) {
    elastic_.BegunWithState(c.agent_id, c.hello.pid, c.hello.elastic.state_generation);
  }
  NoLongerHeld();
}

void Joining::TurnRetiredAway(Actions* actions) {
  const std::vector<members::Candidate> candidates = waiting_.candidates();
  for (const members::Candidate& c : candidates) {
    if (elastic_.retired(c.hello.worker_incarnation)) TurnAway(c.agent_id, c.hello, kRetiredText, actions);
  }
}

void Joining::Restored(const recovery::Recovered& found, Actions* actions) {
  NoLongerHeld();
  const auto first =
      std::find_if(found.members.begin(), found.members.end(), [](auto& member) { return member.present; });
  if (first != found.members.end()) {
    elastic_.Begun(first->hello.elastic, first->hello.size, found.view.members);
  }
  for (size_t r = 0; r < found.members.size(); ++r) {
    const std::string& agent_id = found.view.members[r].agent_id;
    elastic_.BegunWithState(agent_id, found.view.members[r].pid, found.members[r].hello.elastic.state_generation);
    // Of an agent that has gone since, it is not known any more.
    if (found.members[r].present && agents_->Knows(agent_id)) RunGoesOn(agents_->Run(agent_id), actions);
  }
  for (size_t r = 0; r < found.members.size(); ++r) {
    const recovery::Registered& member = found.members[r];
    if (member.left || !member.dead.empty()) elastic_.Lost(found.view.members[r].agent_id, found.view.members[r].pid);
  }
}

void Joining::RefuseHeld(const members::Roster& roster, Actions* actions) {
  const std::vector<members::Candidate> candidates = waiting_.candidates();
  for (const members::Candidate& c : candidates) {
    const std::string reason = HeldText(c.hello, roster);
    if (reason.empty()) continue;
    waiting_.Drop(c.hello.worker_incarnation);
    Refuse(c.agent_id, c.hello, reason, actions);
  }
}

absl::optional<MembershipNotice> Joining::Told() const {
  const MembershipNotice& told = elastic_.told();
  return told.added > 0 || told.removed > 0 ? absl::make_optional(told) : absl::nullopt;
}

void Joining::FillWaits(const Present& present, TimePoint now, JobStatus* status) const {
  if (!next_.candidates().empty()) {
    Wait wait;
    wait.kind = WaitKind::kInit;
    wait.names = {"init"};
    wait.name_count = 1;
    wait.text = absl::StrCat("processes of another run of this job that wait in init() for its end: ",
                             next_.candidates().size());
    status->waits.push_back(std::move(wait));
  }
  if (waiting_.elastic() || (present.runs && elastic())) {
    elastic_.FillWaits(waiting_, present.runs ? present.roster : nullptr, now, &status->waits);
  } else {
    ReportInit(waiting_, now, status);
  }
}

}  // namespace farandole::controller::job
