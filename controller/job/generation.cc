#include "controller/job/generation.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "controller/types/job_settings.h"
#include "controller/types/rank_text.h"
#include "controller/waits/open_waits.h"

namespace farandole::controller::job {
namespace {

// Far above what a script has; a bound on the table for the sake of the other jobs.
constexpr uint32_t kOpenRequestsMax = 65536;

RankSet Only(Rank rank) {
  RankSet set;
  set.Add(rank);
  return set;
}

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
      outbox_(std::move(log), &roster_),
      negotiator_(
          roster_.size(), config_, &outbox_, [this](const std::vector<Rank>& left) { return LeftText(left); },
          [this](Rank rank, TimePoint first, bool last, TimePoint now) { watch_.Announced(rank, first, last, now); }),
      replay_(config_, &roster_, &outbox_, [this](uint32_t set) { return MembersOf(set); }),
      watch_(roster_.size(), config_.settings.Watch()) {
  keys_.AllowFor(roster_.size());
}

absl::Status Generation::PutKey(const std::string& key, const std::string& value) {
  keys_.Free([this](uint64_t item) {
    for (int r = 0; r < roster_.size(); ++r) {
      const members::Seat& seat = roster_.seat(Rank(r));
      if (!seat.let_go && seat.completed_through < item) return false;
    }
    return true;
  });
  return keys_.Put(key, value);
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
  if (life_ == Life::kFailed) {
    roster_.mutable_seat(rank).over = true;
    // One that never saw its view knows of no generation that it could lose.
    roster_.ToOne(rank, Removed{hello.generation, RemovedKind::kPeerLost, reason_}, actions);
    return;
  }
  actions->Because(absl::StrCat(Describe(roster_.seat(rank).member), " opened session ", hello.session));
  roster_.ToOne(rank, Welcome{hello.session, config_.controller_incarnation, {}}, actions);
  GoOn(rank, hello, now, actions);
  Pump(now, actions);
}

// Rule C8, after the Welcome.
void Generation::GoOn(Rank rank, const Hello& hello, TimePoint now, Actions* actions) {
  if (hello.generation.number == 0) roster_.ToOne(rank, View{id_, roster_.members(), data_key_}, actions);
  trace_.OnSession(rank, id_, roster_, actions);
  if (!Progress(rank, hello.received_through, hello.completed_through, actions)) return;
  std::vector<Request> requests = hello.open_requests;
  if (!Resend(rank, hello, &requests, actions)) return;
  if (!roster_.seat(rank).left) TakePosition(rank, hello, std::move(requests), now, actions);
  LetGo(rank, actions);
}

void Generation::TakeSeat(Rank rank, const recovery::Registered& member) {
  if (member.present) roster_.OpenSession(rank, member.hello.session, member.agent_id);
  if (!member.session_open) roster_.CloseSession(rank);
  if (member.left) {
    roster_.MarkLeft(rank);
    roster_.LetGo(rank);
    outbox_.Release(rank);
    negotiator_.Leave(rank);
  } else if (!member.dead.empty()) {
    roster_.mutable_seat(rank).over = true;
    roster_.mutable_seat(rank).ended_cause = member.dead;
  }
}

void Generation::Restore(const recovery::Recovery& recovery, TimePoint now, Actions* actions) {
  const std::vector<recovery::Registered>& members = recovery.found().members;
  negotiator_.RestoreSets(recovery.process_sets(), recovery.removals());
  for (int r = 0; r < roster_.size(); ++r) TakeSeat(Rank(r), members[r]);
  if (!recovery.fault().empty()) {
    Fail(recovery.fault(), actions);
    return;
  }
  if (!members[0].present) {
    actions->Because(absl::StrCat(Describe(roster_.seat(Rank(0)).member),
                                  " has left before, so that what it set for the job with variables is not known: "
                                  "from now on the values of the controller's environment count"));
  }
  replay_.Restore({recovery.phase(), recovery.stage(), recovery.replay_index(), recovery.period(), recovery.begun()},
                  now);
  for (int r = 0; r < roster_.size() && life_ == Life::kRunning; ++r) {
    if (members[r].left) continue;
    GoOn(Rank(r), members[r].hello, now, actions);
    if (members[r].failed) OnFailed(Rank(r), *members[r].failed, now, actions);
  }
  watch_.Arm(now);
  if (roster_.all_let_go()) life_ = Life::kOver;
  Pump(now, actions);
}

void Generation::TakePosition(Rank rank, const Hello& hello, std::vector<Request> requests, TimePoint now,
                              Actions* actions) {
  if (!replay_.negotiating()) {
    replay_.OnHello(rank, hello, now, actions);
    return;
  }
  // One that is behind counts as having announced nothing: it says everything itself once it has seen the marker.
  const bool behind = hello.phase < replay_.phase();
  if (behind) requests.clear();
  negotiator_.Retain(rank, requests);
  replay_.Forget(rank);
  AnnounceAll({{rank, hello.received_through}}, requests, {}, now, actions);
  if (!behind && hello.leaving && life_ == Life::kRunning) Leave(rank, now, actions);
}

// Rule C8. Takes out of `requests` what items answer that the worker has not seen yet. False: nothing more to do.
bool Generation::Resend(Rank rank, const Hello& hello, std::vector<Request>* requests, Actions* actions) {
  log::Answered answered(rank, [this](uint32_t process_set, uint32_t slot, uint64_t index) {
    return negotiator_.NameIn(process_set, slot, index);
  });
  if (!outbox_.Resend(rank, hello.received_through, &answered, actions)) {
    if (!roster_.seat(rank).let_go) {
      Fail(absl::StrCat(Describe(roster_.seat(rank).member), " asks again for items after ", hello.received_through,
                        ", which it had received; this is a fault of Farandole"),
           actions);
      return false;
    }
    // Nothing is left for it to take part in.
    outbox_.Queue(LeaveDone{}, Only(rank));
  }
  if (hello.phase > replay_.phase()) {
    Fail(absl::StrCat(Describe(roster_.seat(rank).member), " is in phase ", hello.phase, " of ", replay_.phase(),
                      "; this is a fault of Farandole"),
         actions);
    return false;
  }
  answered.Reduce(requests);
  return true;
}

// False if what the worker says cannot be.
bool Generation::Progress(Rank rank, uint64_t received_through, uint64_t completed_through, Actions* actions) {
  members::Seat& seat = roster_.mutable_seat(rank);
  if (completed_through > received_through || !outbox_.Received(rank, received_through)) {
    Fail(absl::StrCat(Describe(seat.member), " has received item ", received_through, " and completed item ",
                      completed_through, " of ", outbox_.log().last(), "; this is a fault of Farandole"),
         actions);
    return false;
  }
  seat.completed_through = std::max(seat.completed_through, completed_through);
  negotiator_.Completed(rank, seat.completed_through);
  return true;
}

void Generation::OnAnnounce(absl::Span<const Progressed> who, const Announce& announce, TimePoint now,
                            Actions* actions) {
  std::vector<ready::Negotiator::Teller> tellers;
  tellers.reserve(who.size());
  for (const Progressed& one : who) {
    if (!Listens(one.rank, announce.generation) || announce.phase != replay_.phase()) continue;
    if (!Progress(one.rank, one.received_through, one.completed_through, actions)) return;
    if (!roster_.seat(one.rank).left) tellers.push_back({one.rank, one.received_through});
  }
  if (replay_.negotiating() && !tellers.empty()) {
    AnnounceAll(tellers, announce.requests, announce.cached, now, actions);
  }
  Pump(now, actions);
}

void Generation::OnBreak(Rank rank, const Break& said, TimePoint now, Actions* actions) {
  if (!Listens(rank, said.generation)) return;
  replay_.OnBreak(rank, said, now, actions);
  watch_.Arm(now);
}

void Generation::OnHalted(absl::Span<const Progressed> who, const Halted& halted, TimePoint now, Actions* actions) {
  for (const Progressed& one : who) {
    if (!Listens(one.rank, halted.generation)) continue;
    if (!Progress(one.rank, one.received_through, one.completed_through, actions)) return;
    replay_.OnHalted(one.rank, halted);
  }
  Pump(now, actions);
}

// Rule C3a.
void Generation::GiveUp(const std::vector<uint64_t>& seqs, const std::string& reason, TimePoint now, Actions* actions) {
  const std::string kept = replay_.KeptText(&seqs);
  if (!kept.empty()) {
    Fail(absl::StrCat(kept, ": ", reason), actions);
    return;
  }
  for (uint64_t seq : seqs) {
    // One that went together with another is no longer open.
    const replay::BegunList::Instance* const open = replay_.begun().Find(seq);
    if (open != nullptr) Withdraw(open->process_set, reason, now, actions);
  }
}

// Rule C3.
void Generation::Withdraw(uint32_t process_set, const std::string& reason, TimePoint now, Actions* actions) {
  for (auto& announced : replay_.Withdraw(process_set, reason, actions)) {
    negotiator_.Announce({{announced.first, 0}}, {std::move(announced.second)}, {}, now, actions);
  }
}

const RankSet* Generation::MembersOf(uint32_t process_set) const {
  const ready::SetMembers* members = negotiator_.sets().Find(process_set);
  return members == nullptr ? nullptr : &members->set();
}

void Generation::OnAck(Rank rank, const Ack& ack, TimePoint now, Actions* actions) {
  if (!Listens(rank, ack.generation)) return;
  if (!Progress(rank, ack.received_through, ack.completed_through, actions)) return;
  LetGo(rank, actions);
  Pump(now, actions);
}

void Generation::AnnounceAll(const std::vector<ready::Negotiator::Teller>& who, const std::vector<Request>& requests,
                             const std::vector<CachedRequests>& cached, TimePoint now, Actions* actions) {
  size_t more = requests.size();
  for (const CachedRequests& slots : cached) more += slots.slots.size();
  for (const ready::Negotiator::Teller& teller : who) {
    if (negotiator_.OpenCount(teller.rank) + outbox_.QueuedFor(teller.rank) + more <= kOpenRequestsMax) continue;
    Fail(
        absl::StrCat(Describe(roster_.seat(teller.rank).member), " has more than ", kOpenRequestsMax, " open requests"),
        actions);
    return;
  }
  bool good = true;
  if (replay_.begun().empty()) {
    good = negotiator_.Announce(who, requests, cached, now, actions);
  } else {
    // What belongs to an open begun instance never comes to the negotiator.
    for (const ready::Negotiator::Teller& teller : who) {
      std::vector<Request> own = requests;
      good = negotiator_.Resolve(teller, cached, &own) && good;
      for (const Request& request : own) AnnounceBeside(teller, request, now, actions);
    }
  }
  if (good) return;
  Fail(absl::StrCat(Describe(roster_.seat(who[0].rank).member),
                    " announced by a slot of the signature cache that nothing is in; this is a fault of Farandole"),
       actions);
}

void Generation::AnnounceBeside(const ready::Negotiator::Teller& teller, const Request& request, TimePoint now,
                                Actions* actions) {
  if (life_ != Life::kRunning) return;
  const replay::BegunList::Heard heard = replay_.Announce(teller.rank, request);
  if (heard == replay::BegunList::Heard::kTaken) return;
  const std::string who = Describe(roster_.seat(teller.rank).member);
  if (heard == replay::BegunList::Heard::kChanged) {
    GiveUp({replay_.begun().Find(teller.rank, request)->seq},
           absl::StrCat(who, " submitted ", request.name, " with another signature than in the replay"), now, actions);
    if (life_ != Life::kRunning) return;
  }
  negotiator_.Announce({{teller}}, {request}, {}, now, actions);
  if (request.signature.op != OpKind::kJoin) return;
  GiveUp(replay_.Joined(teller.rank), absl::StrCat(who, " has joined"), now, actions);
}

std::string Generation::LeftText(const std::vector<Rank>& left) const {
  if (left.size() > 1) return absl::StrCat(RankText(left), " have left the job by calling shutdown");
  return absl::StrCat(Describe(roster_.seat(left[0]).member), " has left the job by calling shutdown");
}

void Generation::OnLeave(Rank rank, const farandole::Leave& leave, TimePoint now, Actions* actions) {
  const GenerationId& generation = leave.generation;
  if (roster_.seat(rank).left || roster_.seat(rank).over) return;
  if (life_ == Life::kFailed && generation == id_) roster_.mutable_seat(rank).over = true;
  // Sent just before a Replay came: void like an announcement; the worker breaks and says it again after Resume.
  if (!Listens(rank, generation) || !replay_.negotiating()) return;
  if (!Progress(rank, leave.received_through, leave.completed_through, actions)) return;
  Leave(rank, now, actions);
  LetGo(rank, actions);
  Pump(now, actions);
}

void Generation::Leave(Rank rank, TimePoint now, Actions* actions) {
  GiveUp(replay_.begun().LackedBy(rank), absl::StrCat(Describe(roster_.seat(rank).member), " leaves"), now, actions);
  if (life_ != Life::kRunning) return;
  roster_.MarkLeft(rank);
  outbox_.Part(rank);
  actions->Because(absl::StrCat(Describe(roster_.seat(rank).member), " left"));
  negotiator_.Leave(rank);
}

// A leaver goes once it has executed all that concerns it, for others may wait for its part.
void Generation::LetGo(Rank rank, Actions* actions) {
  const members::Seat& seat = roster_.seat(rank);
  if (!seat.left || seat.gone() || life_ != Life::kRunning) return;
  const RankSet only = Only(rank);
  if (seat.completed_through < outbox_.log().LastFor(rank) || replay_.Busy(&only)) return;
  roster_.LetGo(rank);
  outbox_.Release(rank);
  outbox_.Queue(LeaveDone{}, only);
  if (!roster_.all_let_go()) return;
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
  Fail(absl::StrCat(Describe(seat.member), " ", seat.ended_cause), actions);
}

void Generation::OnReborn(Rank rank, Actions* actions) {
  members::Seat& seat = roster_.mutable_seat(rank);
  seat.over = true;
  Fail(absl::StrCat(Describe(seat.member), " has called init again without shutdown"), actions);
}

void Generation::OnHealth(Rank rank, bool responsive, const std::string& cause, Actions* actions) {
  members::Seat& seat = roster_.mutable_seat(rank);
  if (seat.responsive == responsive) return;
  seat.responsive = responsive;
  seat.unresponsive_cause = responsive ? "" : cause;
  actions->Because(absl::StrCat(Describe(seat.member),
                                responsive ? " answers again" : " is unresponsive: ", seat.unresponsive_cause));
}

void Generation::OnAgentLost(const std::string& agent_id, const std::string& text, Actions* actions) {
  const std::vector<Rank> lost = roster_.Behind(agent_id);
  if (lost.empty()) return;
  const std::string who = lost.size() == 1 ? absl::StrCat(Describe(roster_.seat(lost[0]).member), " is")
                                           : absl::StrCat(RankText(lost), " are");
  // The agent may be back one day on the same stream: those who are given up are told as well.
  Fail(absl::StrCat(who, " given up: ", text), actions);
  for (Rank rank : lost) {
    members::Seat& seat = roster_.mutable_seat(rank);
    seat.over = true;
    seat.responsive = false;
    seat.unresponsive_cause = absl::StrCat("given up: ", text);
  }
}

void Generation::OnReport(Rank rank, const WorkerReport& report, TimePoint now) {
  if (life_ == Life::kRunning && report.generation == id_) watch_.Reported(rank, report, now);
}

TimePoint Generation::NextDeadline() const {
  if (life_ != Life::kRunning) return TimePoint::Infinite();
  const TimePoint next = std::min({watch_.next_look(), replay_.NextDeadline(), negotiator_.NextDeadline()});
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
  for (const replay::ReplayControl::Overdue& overdue : replay_.TakeOverdue(now)) {
    if (KeepsOthersWaiting(overdue.lacking)) Withdraw(overdue.process_set, overdue.reason, now, actions);
  }
  negotiator_.Tick(now);
  Pump(now, actions);
}

// Rule C3b: what waits for these holds back something that plain negotiation would not.
bool Generation::KeepsOthersWaiting(const std::vector<Rank>& lacking) const {
  if (negotiator_.has_ready() || !outbox_.queue_empty()) return true;
  return std::any_of(lacking.begin(), lacking.end(), [this](Rank rank) {
    return negotiator_.OpenCount(rank) > 0 || replay_.begun().HasAnnounced(rank);
  });
}

std::vector<OpenWait> Generation::Waits(TimePoint now) const {
  if (life_ != Life::kRunning) return {};
  return waits::OpenWaits(negotiator_, replay_.state(), replay_.begun(), watch_.reports(), waits::WaitWatch::kWaitsMax,
                          now);
}

void Generation::LookAtWaits(TimePoint now, Actions* actions) {
  waits::WaitWatch::Verdict verdict = watch_.Look(Waits(now), roster_.Heard(), now);
  for (std::string& sentence : verdict.said) {
    actions->Because(sentence);
    roster_.ToOne(Rank(0), Notice{id_, std::move(sentence)}, actions);
  }
  if (verdict.fatal.empty()) return;
  const std::string kept = replay_.KeptText();
  Fail(kept.empty() ? verdict.fatal : absl::StrCat(verdict.fatal, "; ", kept), actions);
}

void Generation::Pump(TimePoint now, Actions* actions) {
  if (life_ == Life::kFailed) return;
  if (negotiator_.full()) {
    FailFull(actions);
    return;
  }
  const absl::Status resumed = replay_.Resume(now, actions);
  if (!resumed.ok()) {
    Fail(std::string(resumed.message()), actions);
    return;
  }
  if (replay_.negotiating()) {
    replay_.SendEnters(actions);
    // C1: nothing but Enter and Withdraw goes to a busy member.
    const auto held = [this](const ItemBody& body, const RankSet* to) {
      return !std::holds_alternative<farandole::Withdraw>(body) && replay_.Busy(to);
    };
    bool sent = false;
    do {
      if (outbox_.SendQueue(replay_.phase(), held, actions) > 0) replay_.Interrupted();
      sent = SendBatches(now, actions) || sent;
    } while (replay_.begun().empty() && negotiator_.EndJoin());
    if (outbox_.queue_empty()) {
      const uint64_t last = outbox_.log().last();
      for (uint32_t removed : negotiator_.Sent(last, outbox_.log().stable())) keys_.SetRemoved(removed, last);
    }
    if (sent) TryReplay(actions);
  }
  outbox_.Finish(negotiator_.has_ready(), actions);
}

void Generation::FailFull(Actions* actions) {
  Rank most(0);
  for (int r = 1; r < roster_.size(); ++r) {
    if (negotiator_.OpenCount(Rank(r)) > negotiator_.OpenCount(most)) most = Rank(r);
  }
  Fail(absl::StrCat("what its members have announced takes more than the ", negotiator_.bytes_max() >> 20,
                    " MiB that it may; ", Describe(roster_.seat(most).member), " has the most, ",
                    negotiator_.OpenCount(most), " open requests; look for what submits them and never waits"),
       actions);
}

// True if one was sent.
bool Generation::SendBatches(TimePoint now, Actions* actions) {
  ready::Negotiator::Dispatch dispatch;
  bool sent = false;
  const auto held = [this](uint32_t set) { return replay_.Busy(MembersOf(set)); };
  while (outbox_.MakeRoom() &&
         negotiator_.NextBatch(outbox_.log().last() + 1, outbox_.log().stable(), now, held, &dispatch)) {
    tensors_ += dispatch.batch.entries.size();
    replay_.Dispatched({dispatch.batch.process_set, std::move(dispatch.executed)});
    const bool to_all = dispatch.set->id() == 0;
    outbox_.Send(replay_.phase(), std::move(dispatch.batch), to_all ? nullptr : &dispatch.set->set(), actions);
    sent = true;
  }
  return sent;
}

// Rule C4.
void Generation::TryReplay(Actions* actions) {
  if (roster_.left_count() > 0 || !outbox_.queue_empty() || negotiator_.has_ready()) return;
  if (!negotiator_.joined().empty()) return;
  auto found = replay_.Wanted();
  if (!found || !negotiator_.Within(found->period)) return;
  negotiator_.Clear();
  replay_.Begin(*std::move(found), actions);
}

void Generation::Fail(const std::string& sentence, Actions* actions) {
  if (life_ != Life::kRunning) return;
  life_ = Life::kFailed;
  reason_ = sentence;
  actions->Because(absl::StrCat("generation ", id_.number, " failed: ", sentence));
  failures_.Clear();
  outbox_.ClearQueue();
  negotiator_.Clear();
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
  status->items = outbox_.log().last();
  status->tensors = tensors_;
  if (life_ == Life::kRunning) waits::FillReplay(watch_.reports(), replay_.state(), now, status);
  for (int r = 0; r < roster_.size(); ++r) {
    const members::Seat& seat = roster_.seat(Rank(r));
    MemberStatus m;
    m.member = seat.member;
    m.received_through = outbox_.log().received_through(Rank(r));
    m.completed_through = seat.completed_through;
    m.open_requests = life_ == Life::kRunning ? negotiator_.OpenCount(Rank(r)) : 0;
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
