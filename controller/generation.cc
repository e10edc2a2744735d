#include "controller/generation.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "controller/rank_text.h"

namespace farandole {
namespace {

// Far above what a script has; a bound on the table for the sake of the other jobs.
constexpr uint32_t kOpenRequestsMax = 65536;

using NameSet = absl::flat_hash_set<std::string>;

// Names of the requests that an item answers.
void CollectNames(const ItemBody& body, NameSet* names) {
  if (const Batch* batch = std::get_if<Batch>(&body)) {
    for (const BatchEntry& entry : batch->entries) names->insert(entry.name);
  } else if (const ErrorItem* error = std::get_if<ErrorItem>(&body)) {
    names->insert(error->names.begin(), error->names.end());
  } else if (const BarrierDone* done = std::get_if<BarrierDone>(&body)) {
    names->insert(done->name);
  }
}

RankSet Only(Rank rank) {
  RankSet set;
  set.Add(rank);
  return set;
}

std::string NewDataKey(const JobConfig& config) { return config.new_data_key ? config.new_data_key() : ""; }

}  // namespace

Generation::Generation(GenerationId id, const std::vector<Candidate>& members, const JobConfig& config)
    : id_(id),
      config_(config),
      data_key_(NewDataKey(config)),
      roster_(members),
      negotiator_(static_cast<int>(members.size())),
      batcher_(0, config.fusion_threshold_bytes),
      log_(id, static_cast<int>(members.size()), config.unstable_items_max) {}

void Generation::Open(Actions* actions) { roster_.ToAll(View{id_, roster_.members(), data_key_}, actions); }

bool Generation::Listens(Rank rank, const GenerationId& generation) const {
  return phase_ != Phase::kFailed && generation == id_ && roster_.seat(rank).session_open;
}

void Generation::OnHello(Rank rank, const Hello& hello, const std::string& agent_id, TimePoint now, Actions* actions) {
  if (hello.session <= roster_.seat(rank).session) return;
  roster_.OpenSession(rank, hello.session, agent_id);
  if (phase_ == Phase::kFailed) {
    roster_.mutable_seat(rank).over = true;
    // One that never saw its view knows of no generation that it could lose.
    roster_.ToOne(rank, Removed{hello.generation, RemovedKind::kPeerLost, reason_}, actions);
    return;
  }
  actions->Because(absl::StrCat(Describe(roster_.seat(rank).member), " opened session ", hello.session));
  roster_.ToOne(rank, Welcome{hello.session, config_.controller_incarnation, {}}, actions);
  if (hello.generation.number == 0) roster_.ToOne(rank, View{id_, roster_.members(), data_key_}, actions);
  if (!Progress(rank, hello.received_through, hello.completed_through, actions)) return;
  std::vector<Request> requests = hello.open_requests;
  if (!Resend(rank, hello.received_through, &requests, actions)) return;
  if (!roster_.seat(rank).left) {
    negotiator_.Retain(rank, requests);
    AnnounceAll(rank, requests, now, actions);
    if (hello.leaving && phase_ == Phase::kRunning) Leave(rank, actions);
  }
  Pump(actions);
}

// Rule C8. Takes out of `requests` what items answer that the worker has not seen yet. False: nothing more to do.
bool Generation::Resend(Rank rank, uint64_t received_through, std::vector<Request>* requests, Actions* actions) {
  NameSet answered;
  const bool kept = log_.ForEachAbove(rank, received_through, [&](const Item& item) {
    CollectNames(item.body, &answered);
    roster_.ToOne(rank, item, actions);
  });
  if (!kept && roster_.seat(rank).left) {
    // Nothing is left for it to take part in.
    answers_.push_back({LeaveDone{}, Only(rank)});
  } else if (!kept) {
    Fail(absl::StrCat(Describe(roster_.seat(rank).member), " asks again for items after ", received_through,
                      ", which it had received; this is a fault of Farandole"),
         actions);
    return false;
  }
  for (const Answer& answer : answers_) {
    if (!answer.to || answer.to->Contains(rank)) CollectNames(answer.body, &answered);
  }
  requests->erase(
      std::remove_if(requests->begin(), requests->end(), [&](const Request& r) { return answered.contains(r.name); }),
      requests->end());
  return true;
}

// False if what the worker says cannot be.
bool Generation::Progress(Rank rank, uint64_t received_through, uint64_t completed_through, Actions* actions) {
  Seat& seat = roster_.mutable_seat(rank);
  if (completed_through > received_through || !log_.Received(rank, received_through)) {
    Fail(absl::StrCat(Describe(seat.member), " has received item ", received_through, " and completed item ",
                      completed_through, " of ", log_.last(), "; this is a fault of Farandole"),
         actions);
    return false;
  }
  seat.completed_through = std::max(seat.completed_through, completed_through);
  if (rank.value() == 0) batcher_.Completed(seat.completed_through);
  return true;
}

void Generation::OnAnnounce(Rank rank, const Announce& announce, TimePoint now, Actions* actions) {
  if (!Listens(rank, announce.generation) || announce.phase != 0) return;
  if (!Progress(rank, announce.received_through, announce.completed_through, actions)) return;
  if (!roster_.seat(rank).left) AnnounceAll(rank, announce.requests, now, actions);
  Pump(actions);
}

void Generation::OnAck(Rank rank, const Ack& ack, Actions* actions) {
  if (!Listens(rank, ack.generation)) return;
  if (Progress(rank, ack.received_through, ack.completed_through, actions)) Pump(actions);
}

void Generation::AnnounceAll(Rank rank, const std::vector<Request>& requests, TimePoint now, Actions* actions) {
  std::vector<std::string> left_behind;
  for (const Request& request : requests) {
    if (phase_ != Phase::kRunning) return;
    if (request.signature.process_set != 0) {
      Refuse(rank, {request.name}, request.signature.process_set, ErrorKind::kMismatch,
             absl::StrCat("Unknown process set ", request.signature.process_set, " for ", request.name));
    } else if (roster_.left_count() > 0) {
      left_behind.push_back(request.name);
    } else {
      AnnounceOne(rank, request, now, actions);
    }
  }
  if (!left_behind.empty()) Refuse(rank, std::move(left_behind), 0, ErrorKind::kLeft, LeftText());
}

void Generation::AnnounceOne(Rank rank, const Request& request, TimePoint now, Actions* actions) {
  if (negotiator_.OpenCount(rank) >= kOpenRequestsMax) {
    Fail(absl::StrCat(Describe(roster_.seat(rank).member), " has more than ", kOpenRequestsMax, " open requests"),
         actions);
    return;
  }
  Negotiator::Outcome outcome = negotiator_.Announce(rank, request, now);
  switch (outcome.verdict) {
    case Negotiator::Verdict::kWaiting:
    case Negotiator::Verdict::kDuplicate:
      return;
    case Negotiator::Verdict::kMismatch:
      actions->Because(outcome.text);
      answers_.push_back({ErrorItem{0, {request.name}, ErrorKind::kMismatch, std::move(outcome.text)}, absl::nullopt});
      return;
    case Negotiator::Verdict::kReady:
      if (outcome.ready.signature.op == OpKind::kBarrier) {
        negotiator_.Close(0, outcome.ready.name);
        answers_.push_back({BarrierDone{0, std::move(outcome.ready.name)}, absl::nullopt});
      } else {
        batcher_.Add(std::move(outcome.ready));
      }
      return;
  }
}

void Generation::Refuse(Rank rank, std::vector<std::string> names, uint32_t process_set, ErrorKind kind,
                        std::string text) {
  answers_.push_back({ErrorItem{process_set, std::move(names), kind, std::move(text)}, Only(rank)});
}

std::string Generation::LeftText() const {
  const std::vector<Rank> left = roster_.left();
  if (left.size() > 1) return absl::StrCat(RankText(left), " have left the job by calling shutdown");
  return absl::StrCat(Describe(roster_.seat(left[0]).member), " has left the job by calling shutdown");
}

void Generation::OnLeave(Rank rank, const GenerationId& generation, Actions* actions) {
  if (roster_.seat(rank).gone()) return;
  if (phase_ == Phase::kFailed && generation == id_) roster_.mutable_seat(rank).over = true;
  if (!Listens(rank, generation)) return;
  Leave(rank, actions);
  Pump(actions);
}

void Generation::Leave(Rank rank, Actions* actions) {
  roster_.MarkLeft(rank);
  roster_.mutable_seat(rank).owes_through = last_batch_;
  log_.Release(rank);
  actions->Because(absl::StrCat(Describe(roster_.seat(rank).member), " left"));
  batcher_.Clear();
  for (Negotiator::Abandoned& abandoned : negotiator_.Abandon(rank)) {
    answers_.push_back(
        {ErrorItem{0, std::move(abandoned.names), ErrorKind::kLeft, LeftText()}, std::move(abandoned.ranks)});
  }
  answers_.push_back({LeaveDone{}, Only(rank)});
  if (roster_.left_count() < roster_.size()) return;
  phase_ = Phase::kOver;
  suspicion_.reset();
  actions->Because(absl::StrCat("generation ", id_.number, " is over, all have left"));
}

void Generation::OnFailed(Rank rank, const Failed& failed, TimePoint now, Actions* actions) {
  if (!Listens(rank, failed.generation) || phase_ != Phase::kRunning) return;
  const Rank suspect = failed.suspect_rank;
  if (suspect.known() && suspect.value() < roster_.size() && !roster_.seat(suspect).ended_cause.empty()) {
    Fail(absl::StrCat(Describe(roster_.seat(suspect).member), " ", roster_.seat(suspect).ended_cause), actions);
    return;
  }
  if (suspicion_) return;
  const std::string sentence = absl::StrCat(Describe(roster_.seat(rank).member), " reports: ", failed.reason);
  suspicion_ = Suspicion{now.PlusMs(config_.evidence_wait_ms), suspect, sentence};
  actions->Because(absl::StrCat(sentence, "; waiting ", config_.evidence_wait_ms, " ms for evidence of a death"));
}

void Generation::OnEnded(Rank rank, const std::string& cause, Actions* actions) {
  Seat& seat = roster_.mutable_seat(rank);
  if (!seat.ended_cause.empty()) return;
  seat.ended_cause = cause.empty() ? "ended" : cause;
  const bool owes = seat.left && seat.completed_through < seat.owes_through;
  const bool expected = seat.gone() && !owes && !(suspicion_ && suspicion_->suspect == rank);
  seat.over = true;
  if (expected) return;
  Fail(absl::StrCat(Describe(seat.member), " ", seat.ended_cause), actions);
}

void Generation::OnReborn(Rank rank, Actions* actions) {
  Seat& seat = roster_.mutable_seat(rank);
  seat.over = true;
  Fail(absl::StrCat(Describe(seat.member), " has called init again without shutdown"), actions);
}

void Generation::OnHealth(Rank rank, bool responsive, const std::string& cause, Actions* actions) {
  Seat& seat = roster_.mutable_seat(rank);
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
    Seat& seat = roster_.mutable_seat(rank);
    seat.over = true;
    seat.responsive = false;
    seat.unresponsive_cause = absl::StrCat("given up: ", text);
  }
}

void Generation::Tick(TimePoint now, Actions* actions) {
  if (!suspicion_ || now < suspicion_->deadline) return;
  Fail(std::string(suspicion_->sentence), actions);
}

void Generation::Pump(Actions* actions) {
  if (phase_ == Phase::kFailed) return;
  while (!log_.Full()) {
    if (!answers_.empty()) {
      Answer answer = std::move(answers_.front());
      answers_.pop_front();
      Emit(std::move(answer.body), answer.to ? &*answer.to : nullptr, actions);
      continue;
    }
    Batch batch;
    if (!batcher_.Next(&batch)) break;
    for (const BatchEntry& entry : batch.entries) negotiator_.Close(batch.process_set, entry.name);
    tensors_ += batch.entries.size();
    batcher_.Sent(log_.last() + 1);
    Emit(std::move(batch), nullptr, actions);
    last_batch_ = log_.last();
  }
  if (const auto stable = log_.TakeStable()) roster_.ToAll(Stable{id_, *stable}, actions);
  const bool held = log_.Full() && (!answers_.empty() || !batcher_.empty());
  if (held && !full_said_) {
    actions->Because(absl::StrCat(log_.last() - log_.stable(), " items are not received by all; ",
                                  Describe(roster_.seat(log_.laggard()).member), " is at item ",
                                  log_.received_through(log_.laggard())));
  }
  full_said_ = held;
}

void Generation::Emit(ItemBody body, const RankSet* to, Actions* actions) {
  const Item& item = log_.Append(std::move(body), to);
  if (to == nullptr) {
    roster_.ToAll(item, actions);
  } else {
    roster_.ToSome(*to, item, actions);
  }
}

void Generation::Fail(const std::string& sentence, Actions* actions) {
  if (phase_ != Phase::kRunning) return;
  phase_ = Phase::kFailed;
  reason_ = sentence;
  actions->Because(absl::StrCat("generation ", id_.number, " failed: ", sentence));
  suspicion_.reset();
  answers_.clear();
  batcher_.Clear();
  RankSet survivors;
  for (int r = 0; r < roster_.size(); ++r) {
    if (!roster_.seat(Rank(r)).gone()) survivors.Add(Rank(r));
  }
  roster_.ToSome(survivors, Removed{id_, RemovedKind::kPeerLost, sentence}, actions);
}

void Generation::FillStatus(const AgentTable& agents, TimePoint now, JobStatus* status) const {
  constexpr size_t kWaitsMax = 1000;
  status->size = roster_.size();
  status->items = log_.last();
  status->tensors = tensors_;
  if (phase_ == Phase::kRunning) status->waits = negotiator_.Waits(now, kWaitsMax);
  for (int r = 0; r < roster_.size(); ++r) {
    const Seat& seat = roster_.seat(Rank(r));
    MemberStatus m;
    m.member = seat.member;
    m.received_through = log_.received_through(Rank(r));
    m.completed_through = seat.completed_through;
    m.open_requests = phase_ == Phase::kRunning ? negotiator_.OpenCount(Rank(r)) : 0;
    m.left = seat.left;
    m.cause = !seat.ended_cause.empty() ? seat.ended_cause
              : !seat.responsive        ? seat.unresponsive_cause
              : seat.gone()             ? ""
                                        : agents.Suspicion(seat.member.agent_id, now);
    m.responsive = m.cause.empty();
    status->members.push_back(std::move(m));
  }
}

}  // namespace farandole
