#include "controller/job/sequencer.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "controller/job/collective_waits.h"
#include "controller/types/rank_set.h"
#include "controller/waits/open_waits.h"
#include "controller/waits/wait_watch.h"

namespace farandole::controller::job {
namespace {

// Far above what a script has; a bound on the table for the sake of the other jobs.
constexpr uint32_t kOpenRequestsMax = 65536;
// Less than a worker waits for LeaveDone.
constexpr int kKeepBackMs = 2000;

RankSet Only(Rank rank) {
  RankSet set;
  set.Add(rank);
  return set;
}

absl::Status OurFault(const std::string& what) {
  return absl::InternalError(absl::StrCat(what, "; this is a bug in Farandole; please report it"));
}

}  // namespace

Sequencer::Sequencer(const JobConfig& config, log::ItemLog log, members::Roster* roster, Callbacks callbacks)
    : roster_(roster),
      set_removed_(std::move(callbacks.set_removed)),
      outbox_(std::move(log), roster),
      negotiator_(
          roster->size(), config, &outbox_, [this](const std::vector<Rank>& left) { return LeftText(left); },
          std::move(callbacks.announced)),
      replay_(config, roster, &outbox_, [this](uint32_t set) { return MembersOf(set); }) {}

void Sequencer::RestoreMembers(const recovery::Recovery& recovery) {
  negotiator_.RestoreSets(recovery.process_sets(), recovery.removals());
  for (Rank rank : roster_->left()) {
    outbox_.Release(rank);
    negotiator_.Leave(rank);
  }
}

void Sequencer::RestoreReplay(const recovery::Recovery& recovery, TimePoint now) {
  replay_.Restore({recovery.phase(), recovery.stage(), recovery.replay_index(), recovery.period(), recovery.begun()},
                  now);
  for (const recovery::Recovery::Owed& owed : recovery.owed()) {
    for (const std::string& name : owed.names) negotiator_.Owe(owed.process_set, name, owed.ranks);
  }
  NoteReplayEnd(now);
}

absl::Status Sequencer::OnHello(Rank rank, const Hello& hello, TimePoint now, Actions* actions) {
  absl::Status status = OnProgress(rank, hello.received_through, hello.completed_through);
  std::vector<Request> requests = hello.open_requests;
  if (status.ok()) status = Resend(rank, hello, &requests, actions);
  if (!status.ok() || roster_->seat(rank).left) return status;
  if (!replay_.negotiating()) {
    replay_.OnHello(rank, hello, now, actions);
    return absl::OkStatus();
  }
  // One that is behind counts as having announced nothing: it says everything itself once it has seen the marker.
  const bool behind = hello.phase < replay_.phase();
  if (behind) requests.clear();
  negotiator_.Retain(rank, requests);
  negotiator_.Owes(rank, hello);
  replay_.Forget(rank);
  status = OnAnnounce({{rank, hello.received_through}}, requests, {}, now, actions);
  return status.ok() && !behind && hello.leaving ? OnLeave(rank, now, actions) : status;
}

// Sends again what the member has not received (rule C8), and takes out of `requests` what these items answer: it is
// not open any more.
absl::Status Sequencer::Resend(Rank rank, const Hello& hello, std::vector<Request>* requests, Actions* actions) {
  log::Answered answered(rank, [this](uint32_t process_set, uint32_t slot, uint64_t index) {
    return negotiator_.NameIn(process_set, slot, index);
  });
  if (!outbox_.Resend(rank, hello.received_through, &answered, actions)) {
    if (!roster_->seat(rank).let_go) {
      return OurFault(
          absl::StrCat(Who(rank), " asks again for items after ", hello.received_through, ", which it had received"));
    }
    // Nothing is left for it to take part in.
    outbox_.Queue(LeaveDone{}, Only(rank));
  }
  if (hello.phase > replay_.phase()) {
    return OurFault(absl::StrCat(Who(rank), " is in phase ", hello.phase, " of ", replay_.phase()));
  }
  answered.Reduce(requests);
  return absl::OkStatus();
}

absl::Status Sequencer::OnProgress(Rank rank, uint64_t received_through, uint64_t completed_through) {
  members::Seat& seat = roster_->mutable_seat(rank);
  if (completed_through > received_through || !outbox_.Received(rank, received_through)) {
    return OurFault(absl::StrCat(Who(rank), " has received item ", received_through, " and completed item ",
                                 completed_through, " of ", outbox_.log().last()));
  }
  seat.completed_through = std::max(seat.completed_through, completed_through);
  negotiator_.Completed(rank, seat.completed_through);
  return absl::OkStatus();
}

absl::Status Sequencer::OnAnnounce(const std::vector<ready::Negotiator::Teller>& who,
                                   const std::vector<Request>& requests, const std::vector<CachedRequests>& cached,
                                   TimePoint now, Actions* actions) {
  size_t more = requests.size();
  for (const CachedRequests& slots : cached) more += slots.slots.size();
  for (const ready::Negotiator::Teller& teller : who) {
    if (negotiator_.OpenCount(teller.rank) + outbox_.QueuedFor(teller.rank) + more <= kOpenRequestsMax) continue;
    return absl::ResourceExhaustedError(
        absl::StrCat(Who(teller.rank), " has more than ", kOpenRequestsMax, " open requests"));
  }
  bool good = true;
  if (replay_.begun().empty()) {
    good = negotiator_.Announce(who, requests, cached, now, actions);
  } else {
    // What belongs to an open begun instance never comes to the negotiator.
    for (const ready::Negotiator::Teller& teller : who) {
      // A join comes after what was submitted before it.
      std::vector<Request> own;
      good = negotiator_.Resolve(teller, cached, &own) && good;
      own.insert(own.end(), requests.begin(), requests.end());
      for (const Request& request : own) {
        const absl::Status status = AnnounceBeside(teller, request, now, actions);
        if (!status.ok()) return status;
      }
    }
  }
  if (good) return absl::OkStatus();
  return OurFault(absl::StrCat(Who(who[0].rank), " announced by a slot of the signature cache that nothing is in"));
}

absl::Status Sequencer::AnnounceBeside(const ready::Negotiator::Teller& teller, const Request& request, TimePoint now,
                                       Actions* actions) {
  const replay::BegunList::Heard heard = replay_.Announce(teller.rank, request);
  if (heard == replay::BegunList::Heard::kTaken) return absl::OkStatus();
  const std::string who = Who(teller.rank);
  if (heard == replay::BegunList::Heard::kChanged) {
    const absl::Status given_up = GiveUp(
        {replay_.begun().Find(teller.rank, request)->seq},
        absl::StrCat(who, " submitted ", request.name, " with another signature than in the replay"), now, actions);
    if (!given_up.ok()) return given_up;
  }
  negotiator_.Announce({{teller}}, {request}, {}, now, actions);
  if (request.signature.op != OpKind::kJoin || !negotiator_.inside().Contains(teller.rank)) return absl::OkStatus();
  return GiveUp(replay_.Joined(teller.rank), absl::StrCat(who, " has joined"), now, actions);
}

absl::Status Sequencer::GiveUp(const std::vector<uint64_t>& seqs, const std::string& reason, TimePoint now,
                               Actions* actions) {
  const std::string kept = replay_.KeptText(&seqs);
  if (!kept.empty()) return absl::FailedPreconditionError(absl::StrCat(kept, ": ", reason));
  for (uint64_t seq : seqs) {
    // One that went together with another is no longer open.
    const replay::BegunList::Instance* const open = replay_.begun().Find(seq);
    if (open != nullptr) Withdraw(open->process_set, reason, now, actions);
  }
  return absl::OkStatus();
}

// Gives up what only some had begun there, so that all negotiate it again (rule C3).
void Sequencer::Withdraw(uint32_t process_set, const std::string& reason, TimePoint now, Actions* actions) {
  replay::BegunList::Withdrawing withdrawn = replay_.Withdraw(process_set, reason, actions);
  for (const auto& [name, started] : withdrawn.started) negotiator_.Owe(process_set, name, started);
  for (auto& announced : withdrawn.announced) {
    negotiator_.Announce({{announced.first, 0}}, {std::move(announced.second)}, {}, now, actions);
  }
}

absl::Status Sequencer::OnLeave(Rank rank, TimePoint now, Actions* actions) {
  const absl::Status given_up =
      GiveUp(replay_.begun().LackedBy(rank), absl::StrCat(Who(rank), " leaves"), now, actions);
  if (!given_up.ok()) return given_up;
  roster_->MarkLeft(rank);
  outbox_.Part(rank);
  actions->Because(absl::StrCat(Who(rank), " left"));
  negotiator_.Leave(rank);
  return absl::OkStatus();
}

bool Sequencer::LetGo(Rank rank, TimePoint now) {
  const members::Seat& seat = roster_->seat(rank);
  if (!seat.left || seat.gone()) return false;
  const RankSet only = Only(rank);
  if (seat.completed_through < outbox_.log().LastFor(rank) || replay_.Busy(&only)) return false;
  if (KeepsBack(now)) {
    kept_back_.Add(rank);
    return false;
  }
  roster_->LetGo(rank);
  outbox_.Release(rank);
  outbox_.Queue(LeaveDone{}, only);
  return true;
}

// A leaver takes along what it has received, so that a controller that is started again could not tell the others how
// the replay has ended. Not for long: it does not wait for one that is out of reach.
bool Sequencer::KeepsBack(TimePoint now) {
  if (outbox_.ReplayEndKnown()) return false;
  return outbox_.withdraws_wait() || now < replay_end_at_.PlusMs(kKeepBackMs);
}

void Sequencer::NoteReplayEnd(TimePoint now) {
  const uint64_t end = outbox_.log().replay_end();
  if (std::exchange(replay_end_, end) != end) replay_end_at_ = now;
}

std::vector<Rank> Sequencer::TakeKeptBack(TimePoint now) {
  if (kept_back_.empty() || KeepsBack(now)) return {};
  return std::exchange(kept_back_, {}).ToVector();
}

std::string Sequencer::LeftText(const std::vector<Rank>& left) const {
  const char* const what = left.size() > 1 ? " have left the job: their scripts have ended, or called shutdown"
                                           : " has left the job: its script has ended, or called shutdown";
  return absl::StrCat(roster_->NameOf(left), what);
}

const RankSet* Sequencer::MembersOf(uint32_t process_set) const {
  const ready::SetMembers* members = negotiator_.sets().Find(process_set);
  return members == nullptr ? nullptr : &members->set();
}

TimePoint Sequencer::NextDeadline() const {
  const TimePoint next = std::min(replay_.NextDeadline(), negotiator_.NextDeadline());
  if (kept_back_.empty() || outbox_.withdraws_wait()) return next;
  return std::min(next, replay_end_at_.PlusMs(kKeepBackMs));
}

void Sequencer::Tick(TimePoint now, Actions* actions) {
  std::vector<replay::ReplayControl::Overdue> overdue = replay_.TakeOverdue(now);
  // All are judged before one is withdrawn, whose items would look like something that is held back.
  const auto merely_late = [this](const replay::ReplayControl::Overdue& one) {
    return !KeepsOthersWaiting(one.lacking);
  };
  overdue.erase(std::remove_if(overdue.begin(), overdue.end(), merely_late), overdue.end());
  for (const replay::ReplayControl::Overdue& one : overdue) Withdraw(one.process_set, one.reason, now, actions);
  negotiator_.Tick(now);
}

// What waits for these holds back something that plain negotiation would not (rule C3b). Otherwise somebody is merely
// late, and negotiation would wait as well.
bool Sequencer::KeepsOthersWaiting(const std::vector<Rank>& lacking) const {
  if (negotiator_.has_ready() || negotiator_.joins_end() || !outbox_.queue_empty()) return true;
  return std::any_of(lacking.begin(), lacking.end(), [this](Rank rank) {
    return negotiator_.OpenCount(rank) > 0 || replay_.begun().HasAnnounced(rank);
  });
}

std::vector<OpenWait> Sequencer::Waits(const waits::ReportTable& reports, TimePoint now) const {
  const std::vector<waits::ReportTable::InFlight> in_flight = reports.LongInFlight(phase(), now);
  const auto members_of = [this](uint32_t set) { return MembersOf(set); };
  std::vector<OpenWait> waits = CollectiveWaits(in_flight, false, *roster_, log(), members_of, now);
  std::vector<OpenWait> others = waits::OpenWaits(negotiator_, replay_.state(), replay_.begun(), reports,
                                                  waits::WaitWatch::kWaitsMax - waits.size(), now);
  if (others.empty()) {
    others = CollectiveWaits(in_flight, true, *roster_, log(), members_of, now);
  } else if (others[0].kind == WaitKind::kReplay) {
    // The last that a silent rank has said of itself may be far behind.
    RankSet silent = roster_->Silent();
    silent.KeepOnly(others[0].missing);
    if (!silent.empty()) others[0].detail = SilentText(silent, *roster_);
  }
  // Those for nobody come last: they explain the least.
  const auto for_nobody =
      std::stable_partition(waits.begin(), waits.end(), [](const OpenWait& wait) { return !wait.missing.empty(); });
  waits.insert(for_nobody, others.begin(), others.end());
  return waits;
}

absl::Status Sequencer::Send(TimePoint now, Actions* actions) {
  if (negotiator_.full()) return FullError();
  const absl::Status resumed = replay_.Resume(now, actions);
  if (!resumed.ok()) return resumed;
  if (replay_.negotiating()) {
    replay_.SendEnters(actions);
    // A busy member is inside a batch that others may have to enter before anything else, or sequences differ: nothing
    // but Enter and Withdraw goes to it (rule C1).
    const auto held = [this](const ItemBody& body, const RankSet* to) {
      return !std::holds_alternative<farandole::Withdraw>(body) && replay_.Busy(to);
    };
    bool sent = false;
    do {
      if (outbox_.SendQueue(replay_.phase(), held, actions) > 0) replay_.Interrupted();
      sent = SendBatches(now, actions) || sent;
    } while (EndJoins());
    if (outbox_.queue_empty()) {
      const uint64_t last = outbox_.log().last();
      for (uint32_t removed : negotiator_.Sent(last, outbox_.log().stable())) set_removed_(removed, last);
    }
    if (sent) TryReplay(actions);
  }
  NoteReplayEnd(now);
  outbox_.Finish(negotiator_.has_ready(), actions);
  return absl::OkStatus();
}

void Sequencer::Clear() {
  outbox_.ClearQueue();
  negotiator_.Clear();
}

absl::Status Sequencer::FullError() const {
  Rank most(0);
  for (int r = 1; r < roster_->size(); ++r) {
    if (negotiator_.OpenCount(Rank(r)) > negotiator_.OpenCount(most)) most = Rank(r);
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("its members have announced more than ", negotiator_.bytes_max() >> 20, " MiB of requests; ",
                   Who(most), " has the most, ", negotiator_.OpenCount(most),
                   " open requests; look for asynchronous operations that are never synchronized"));
}

// True if there is something to send now.
bool Sequencer::EndJoins() {
  // It would be held back from who is busy, who may add zeros to what comes then.
  const RankSet ended = replay_.Busy(&negotiator_.inside()) ? RankSet() : negotiator_.EndJoinsOfLeave();
  for (Rank rank : ended.ToVector()) replay_.NotJoined(rank);
  return !ended.empty() || (replay_.begun().empty() && negotiator_.EndJoin());
}

// True if one was sent.
bool Sequencer::SendBatches(TimePoint now, Actions* actions) {
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

// Only while nobody has left or joined, which the replay could not wait for, and nothing is announced that the period
// lacks (rule C4).
void Sequencer::TryReplay(Actions* actions) {
  if (roster_->left_count() > 0 || !outbox_.queue_empty() || negotiator_.has_ready()) return;
  if (!negotiator_.joined().empty() || negotiator_.some_owe()) return;
  auto found = replay_.Wanted();
  if (!found || !negotiator_.Within(found->period)) return;
  negotiator_.Clear();
  replay_.Begin(*std::move(found), actions);
}

}  // namespace farandole::controller::job
