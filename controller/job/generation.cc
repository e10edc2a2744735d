#include "controller/job/generation.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "controller/types/job_settings.h"
#include "controller/waits/open_waits.h"

namespace farandole::controller::job {
namespace {

// `Member` is a Candidate or a Registered.
template <typename Member>
std::vector<const std::vector<Variable>*> VariablesOf(const std::vector<Member>& members) {
  std::vector<const std::vector<Variable>*> all;
  all.reserve(members.size());
  for (const Member& member : members) all.push_back(&member.hello.variables);
  return all;
}

JobConfig WithVariables(JobConfig config, const std::vector<const std::vector<Variable>*>& by_rank) {
  // A joiner whose variables cannot be read is refused; of one that registers again they would change nothing.
  if (!by_rank.empty()) ReadSettings(*by_rank[0], &config.settings).IgnoreError();
  return config;
}

std::string NewDataKey(const JobConfig& config) { return config.new_data_key ? config.new_data_key() : ""; }

}  // namespace

Generation::Generation(GenerationId id, const std::vector<members::Candidate>& members, const JobConfig& config)
    : Generation(id, members::Roster(members), NewDataKey(config),
                 log::ItemLog(id, static_cast<int>(members.size()), config.unstable_items_max), VariablesOf(members),
                 config) {}

Generation::Generation(const recovery::Recovery& recovery, const JobConfig& config)
    : Generation(recovery.found().view.generation, members::Roster(recovery.found().view.members),
                 recovery.found().view.data_key, recovery.MakeLog(config.unstable_items_max),
                 VariablesOf(recovery.found().members), config) {}

Generation::Generation(GenerationId id, members::Roster roster, std::string data_key, log::ItemLog log,
                       const Variables& variables, const JobConfig& config)
    : id_(id),
      config_(WithVariables(config, variables)),
      disregarded_(Disregarded(config_.settings, variables)),
      data_key_(std::move(data_key)),
      roster_(std::move(roster)),
      sequencer_(
          config_, std::move(log), &roster_,
          {[this](Rank rank, TimePoint first, bool last, TimePoint now) { watch_.Announced(rank, first, last, now); },
           [this](uint32_t process_set, uint64_t item) { keys_.SetRemoved(process_set, item); }}),
      watch_(roster_.size(), config_.settings.Watch()) {
  keys_.AllowFor(roster_.size());
}

absl::Status Generation::PutKey(const std::string& key, const std::string& value, size_t shared_elsewhere) {
  keys_.Free([this](uint64_t item) {
    for (int r = 0; r < roster_.size(); ++r) {
      const members::Seat& seat = roster_.seat(Rank(r));
      if (!seat.let_go && seat.completed_through < item) return false;
    }
    return true;
  });
  return keys_.Put(key, value, shared_elsewhere);
}

void Generation::TakeKeys(members::KeyStore keys) {
  keys_ = std::move(keys);
  keys_.AllowFor(roster_.size());
}

void Generation::Open(Actions* actions) {
  roster_.ToAll(View{id_, roster_.members(), data_key_}, actions);
  for (const std::string& sentence : disregarded_) {
    actions->Because(sentence);
    roster_.ToOne(Rank(0), Notice{id_, sentence}, actions);
  }
}

bool Generation::Listens(Rank rank, const GenerationId& generation) const {
  return life_ != Life::kFailed && generation == id_ && roster_.seat(rank).session_open;
}

void Generation::OnHello(Rank rank, const Hello& hello, const std::string& agent_id, TimePoint now, Actions* actions) {
  if (hello.session <= roster_.seat(rank).session) return;
  roster_.OpenSession(rank, hello.session, agent_id);
  if (life_ == Life::kFailed) return Remove(rank, hello, actions);
  actions->Because(absl::StrCat(Describe(roster_.seat(rank).member), " opened session ", hello.session));
  roster_.ToOne(rank, Welcome{hello.session, config_.controller_incarnation, {}}, actions);
  GoOn(rank, hello, now, actions);
  Send(now, actions);
}

// After it has failed.
void Generation::Remove(Rank rank, const Hello& hello, Actions* actions) {
  roster_.mutable_seat(rank).over = true;
  // One that never saw its view knows of no generation that it could lose.
  roster_.ToOne(rank, Removed{hello.generation, RemovedKind::kPeerLost, reason_}, actions);
}

// The member gets what it lacks, and what its Hello says counts (rule C8).
void Generation::GoOn(Rank rank, const Hello& hello, TimePoint now, Actions* actions) {
  if (hello.generation.number == 0) roster_.ToOne(rank, View{id_, roster_.members(), data_key_}, actions);
  trace_.OnSession(rank, id_, roster_, actions);
  if (Good(sequencer_.OnHello(rank, hello, now, actions), actions)) LetGo(rank, now, actions);
  watch_.Arm(now);
}

void Generation::TakeSeat(Rank rank, const recovery::Registered& member) {
  if (member.present) roster_.OpenSession(rank, member.hello.session, member.agent_id);
  if (!member.session_open) roster_.CloseSession(rank);
  if (member.left) {
    roster_.MarkLeft(rank);
    roster_.LetGo(rank);
  } else if (!member.dead.empty()) {
    roster_.mutable_seat(rank).over = true;
    roster_.mutable_seat(rank).ended_cause = member.dead;
  }
}

void Generation::Restore(const recovery::Recovery& recovery, TimePoint now, Actions* actions) {
  const std::vector<recovery::Registered>& members = recovery.found().members;
  for (int r = 0; r < roster_.size(); ++r) {
    TakeSeat(Rank(r), members[r]);
    roster_.mutable_seat(Rank(r)).silent_since = now;
  }
  sequencer_.RestoreMembers(recovery);
  if (!recovery.fault().empty()) {
    Fail(recovery.fault(), actions);
    for (int r = 0; r < roster_.size(); ++r) {
      if (members[r].present && members[r].hello.generation.number == 0) Remove(Rank(r), members[r].hello, actions);
    }
    return;
  }
  if (!members[0].present) {
    actions->Because(absl::StrCat(Describe(roster_.seat(Rank(0)).member),
                                  " has left before, so that what it set for the job with variables is not known: "
                                  "from now on the values of the controller's environment count"));
  }
  sequencer_.RestoreReplay(recovery, now);
  for (int r = 0; r < roster_.size() && life_ == Life::kRunning; ++r) {
    if (members[r].left) continue;
    GoOn(Rank(r), members[r].hello, now, actions);
    if (members[r].failed) OnFailed(Rank(r), *members[r].failed, now, actions);
  }
  watch_.Arm(now);
  if (roster_.all_let_go()) life_ = Life::kOver;
  Send(now, actions);
}

// False: the generation has failed of it.
bool Generation::Good(const absl::Status& status, Actions* actions) {
  if (!status.ok()) Fail(std::string(status.message()), actions);
  return status.ok();
}

void Generation::OnAnnounce(absl::Span<const Progressed> who, const Announce& announce, TimePoint now,
                            Actions* actions) {
  std::vector<ready::Negotiator::Teller> tellers;
  tellers.reserve(who.size());
  for (const Progressed& one : who) {
    if (!Listens(one.rank, announce.generation) || announce.phase != sequencer_.phase()) continue;
    if (!Good(sequencer_.OnProgress(one.rank, one.received_through, one.completed_through), actions)) return;
    if (!roster_.seat(one.rank).left) tellers.push_back({one.rank, one.received_through});
  }
  if (sequencer_.negotiating() && !tellers.empty()) {
    Good(sequencer_.OnAnnounce(tellers, announce.requests, announce.cached, now, actions), actions);
    // Of what belongs to a begun instance the negotiator, which tells of the rest, knows nothing.
    watch_.Arm(now);
  }
  Send(now, actions);
}

void Generation::OnBreak(Rank rank, const Break& said, TimePoint now, Actions* actions) {
  if (!Listens(rank, said.generation)) return;
  sequencer_.OnBreak(rank, said, now, actions);
  watch_.Arm(now);
}

void Generation::OnHalted(absl::Span<const Progressed> who, const Halted& halted, TimePoint now, Actions* actions) {
  for (const Progressed& one : who) {
    if (!Listens(one.rank, halted.generation)) continue;
    if (!Good(sequencer_.OnProgress(one.rank, one.received_through, one.completed_through), actions)) return;
    sequencer_.OnHalted(one.rank, halted);
  }
  Send(now, actions);
}

void Generation::OnAck(Rank rank, const Ack& ack, TimePoint now, Actions* actions) {
  if (!Listens(rank, ack.generation)) return;
  if (!Good(sequencer_.OnProgress(rank, ack.received_through, ack.completed_through), actions)) return;
  LetGo(rank, now, actions);
  Send(now, actions);
}

void Generation::OnLeave(Rank rank, const farandole::Leave& leave, TimePoint now, Actions* actions) {
  const GenerationId& generation = leave.generation;
  if (roster_.seat(rank).left || roster_.seat(rank).over) return;
  if (life_ == Life::kFailed && generation == id_) roster_.mutable_seat(rank).over = true;
  // Sent just before a Replay came: void like an announcement; the worker breaks and says it again after Resume.
  if (!Listens(rank, generation) || !sequencer_.negotiating()) return;
  if (!Good(sequencer_.OnProgress(rank, leave.received_through, leave.completed_through), actions)) return;
  if (Good(sequencer_.OnLeave(rank, now, actions), actions)) LetGo(rank, now, actions);
  Send(now, actions);
}

// If it has executed all that it was needed for.
void Generation::LetGo(Rank rank, TimePoint now, Actions* actions) {
  if (life_ != Life::kRunning || !sequencer_.LetGo(rank, now) || !roster_.all_let_go()) return;
  life_ = Life::kOver;
  failures_.Clear();
  actions->Because(absl::StrCat("generation ", id_.number, " is over, all have left"));
}

void Generation::OnFailed(Rank rank, const Failed& failed, TimePoint now, Actions* actions) {
  if (!Listens(rank, failed.generation) || life_ != Life::kRunning) return;
  const Rank suspect = failed.suspect_rank;
  const bool named = suspect.known() && suspect.value() < roster_.size();
  if (named && !roster_.seat(suspect).ended_cause.empty()) {
    Fail(absl::StrCat(Describe(roster_.seat(suspect).member), " ", roster_.seat(suspect).ended_cause), actions);
    return;
  }
  const bool first = failures_.empty();
  failures_.Add(roster_.seat(rank).member, named ? absl::make_optional(roster_.seat(suspect).member) : absl::nullopt,
                failed.reason);
  if (!first) return;
  verdict_due_ = now.PlusMs(config_.evidence_wait_ms);
  actions->Because(
      absl::StrCat(failures_.Verdict(), "; waiting ", config_.evidence_wait_ms, " ms for evidence of a death"));
}

void Generation::OnEnded(Rank rank, const std::string& cause, Actions* actions) {
  members::Seat& seat = roster_.mutable_seat(rank);
  if (!seat.ended_cause.empty()) return;
  seat.ended_cause = cause.empty() ? "ended" : cause;
  const bool expected = seat.gone() && !failures_.Suspects(rank);
  seat.over = true;
  if (expected) return;
  Fail(absl::StrCat(Describe(seat.member), " ", seat.ended_cause, LeftBefore(rank)), actions);
}

// A worker often ends because of an error that told it that another had left: whoever comes to that operation later
// learns who was the first.
std::string Generation::LeftBefore(Rank ended) const {
  std::vector<Rank> left;
  for (int r = 0; r < roster_.size(); ++r) {
    if (roster_.seat(Rank(r)).left && Rank(r) != ended) left.push_back(Rank(r));
  }
  if (left.empty()) return "";
  return absl::StrCat(" after ", roster_.NameOf(left), " had left the job");
}

void Generation::OnReborn(Rank rank, Actions* actions) {
  members::Seat& seat = roster_.mutable_seat(rank);
  seat.over = true;
  Fail(absl::StrCat(Describe(seat.member), " has called init again without shutdown"), actions);
}

void Generation::OnHealth(Rank rank, bool responsive, const std::string& cause, TimePoint now, Actions* actions) {
  members::Seat& seat = roster_.mutable_seat(rank);
  if (seat.responsive == responsive) return;
  seat.responsive = responsive;
  seat.unresponsive_cause = responsive ? "" : cause;
  // Of one that is out of reach it is said again through its agent's next stream.
  if (!responsive && seat.session_open) seat.silent_since = now;
  actions->Because(absl::StrCat(Describe(seat.member),
                                responsive ? " answers again" : " is unresponsive: ", seat.unresponsive_cause));
}

void Generation::OnAgentLost(const std::string& agent_id, const std::string& text, Actions* actions) {
  const std::vector<Rank> lost = roster_.Behind(agent_id);
  if (lost.empty()) return;
  const std::string who = absl::StrCat(roster_.NameOf(lost), lost.size() == 1 ? " is" : " are");
  // The agent may be back one day on the same stream: those who are given up are told as well.
  Fail(absl::StrCat(who, " given up: ", text), actions);
  for (Rank rank : lost) {
    members::Seat& seat = roster_.mutable_seat(rank);
    seat.over = true;
    seat.responsive = false;
    seat.unresponsive_cause = absl::StrCat("given up: ", text);
  }
}

bool Generation::Suspects(const std::vector<Rank>& ranks) const {
  return std::any_of(ranks.begin(), ranks.end(), [this](Rank rank) { return failures_.Suspects(rank); });
}

void Generation::OnReport(Rank rank, const WorkerReport& report, TimePoint now) {
  if (life_ == Life::kRunning && report.generation == id_) watch_.Reported(rank, report, now);
}

TimePoint Generation::NextDeadline() const {
  if (life_ != Life::kRunning) return TimePoint::Infinite();
  const TimePoint next = std::min(watch_.next_look(), sequencer_.NextDeadline());
  return failures_.empty() ? next : std::min(verdict_due_, next);
}

void Generation::Tick(TimePoint now, Actions* actions) {
  if (life_ != Life::kRunning) return;
  if (!failures_.empty() && verdict_due_ <= now) {
    Fail(failures_.Verdict(), actions);
    return;
  }
  if (watch_.next_look() <= now) LookAtWaits(now, actions);
  if (life_ != Life::kRunning) return;
  sequencer_.Tick(now, actions);
  Send(now, actions);
}

std::vector<OpenWait> Generation::Waits(TimePoint now) const {
  return life_ == Life::kRunning ? sequencer_.Waits(watch_.reports(), now) : std::vector<OpenWait>();
}

void Generation::LookAtWaits(TimePoint now, Actions* actions) {
  waits::WaitWatch::Verdict verdict = watch_.Look(Waits(now), roster_.Heard(), now);
  for (std::string& sentence : verdict.said) {
    actions->Because(sentence);
    roster_.ToOne(Rank(0), Notice{id_, std::move(sentence)}, actions);
  }
  if (verdict.fatal.empty()) return;
  const std::string kept = sequencer_.KeptText();
  Fail(kept.empty() ? verdict.fatal : absl::StrCat(verdict.fatal, "; ", kept), actions);
}

void Generation::Send(TimePoint now, Actions* actions) {
  for (Rank rank : sequencer_.TakeKeptBack(now)) LetGo(rank, now, actions);
  if (life_ != Life::kFailed) Good(sequencer_.Send(now, actions), actions);
}

void Generation::Fail(const std::string& sentence, Actions* actions) {
  if (life_ != Life::kRunning) return;
  life_ = Life::kFailed;
  reason_ = sentence;
  actions->Because(absl::StrCat("generation ", id_.number, " failed: ", sentence));
  failures_.Clear();
  sequencer_.Clear();
  RankSet survivors;
  for (int r = 0; r < roster_.size(); ++r) {
    members::Seat& seat = roster_.mutable_seat(Rank(r));
    if (seat.gone()) continue;
    survivors.Add(Rank(r));
    // To be removed is all that a leaver still wants.
    seat.over = seat.left;
  }
  roster_.ToSome(survivors, Removed{id_, RemovedKind::kPeerLost, sentence}, actions);
}

void Generation::FillStatus(const members::AgentTable& agents, TimePoint now, JobStatus* status) const {
  status->size = roster_.size();
  status->items = sequencer_.log().last();
  status->tensors = sequencer_.tensors();
  if (life_ == Life::kRunning) waits::FillReplay(watch_.reports(), sequencer_.replay(), now, status);
  for (int r = 0; r < roster_.size(); ++r) {
    const members::Seat& seat = roster_.seat(Rank(r));
    MemberStatus m;
    m.member = seat.member;
    m.received_through = sequencer_.log().received_through(Rank(r));
    m.completed_through = seat.completed_through;
    m.open_requests = life_ == Life::kRunning ? sequencer_.OpenCount(Rank(r)) : 0;
    m.left = seat.left;
    m.cause = !seat.ended_cause.empty() ? seat.ended_cause
              : !seat.responsive        ? seat.unresponsive_cause
              : seat.gone()             ? ""
                                        : agents.Suspicion(seat.agent_id, now);
    m.responsive = m.cause.empty();
    status->members.push_back(std::move(m));
  }
  watch_.FillStatus(Waits(now), now, status);
}

}  // namespace farandole::controller::job
