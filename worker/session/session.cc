#include "worker/session/session.h"

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "proto/version.h"

namespace farandole::worker::session {
namespace {

constexpr int kItemsUntoldMax = 64;
// A controller that sends what cannot be gets so many new sessions in a row.
constexpr int kProtocolErrorsMax = 3;

completion::Result Defect(const std::string& what) {
  return {completion::Code::kInternal, absl::StrCat(what, "; this is a bug in Farandole; please report it")};
}

}  // namespace

Session::Session(Identity identity) : identity_(identity) {}

// ---- the link and the fences

Session::Effects Session::LinkUp() {
  Effects effects;
  linked_ = true;
  SayHello(&effects);
  return effects;
}

void Session::LinkDown() {
  linked_ = false;
  welcomed_ = false;
}

Session::Effects Session::AskAgain() {
  Effects effects;
  if (linked_) SayHello(&effects);
  return effects;
}

void Session::SayHello(Effects* effects) {
  if (state_ == State::kLeft || state_ == State::kRemoved) return;
  welcomed_ = false;
  Hello hello;
  hello.session = ++session_;
  hello.worker_incarnation = identity_.incarnation;
  hello.pid = identity_.pid;
  hello.version = kVersion;
  hello.rank = view_.members.empty() ? identity_.rank : self().rank;
  hello.size = identity_.size;
  hello.generation = view_.generation;
  hello.last_controller_incarnation = controller_incarnation_;
  hello.received_through = received_through_;
  hello.completed_through = in_flight_.completed_through();
  for (const auto& operation : table_.Open()) hello.open_requests.push_back(operation->request);
  // While it is a member it says Leave while negotiating only.
  hello.leaving = state_ == State::kLeaving && replayer_.negotiates();
  replayer_.Fill(&hello);
  replayer_.BreakTold();
  hello.retained = retained_.Indices();
  hello.knows_all_hosts = knows_all_hosts_;
  hello.elastic = identity_.elastic;
  hello.variables = identity_.variables;
  hello.taking_back = reader_.taking_back();
  unannounced_.clear();
  Told();
  effects->send.emplace_back(std::move(hello));
}

Session::Effects Session::Received(WorkerDown message, TimePoint now) {
  Effects effects;
  if (state_ == State::kLeft || state_ == State::kRemoved) return effects;
  if (auto* welcome = std::get_if<Welcome>(&message)) {
    OnWelcome(*welcome, &effects);
  } else if (auto* removed = std::get_if<Removed>(&message)) {
    OnRemoved(*removed, &effects);
  } else if (!welcomed_) {
    return effects;  // of an older session
  } else if (auto* item = std::get_if<Item>(&message)) {
    OnItem(std::move(*item), now, &effects);
  } else if (auto* view = std::get_if<View>(&message)) {
    OnView(std::move(*view), &effects);
  } else if (auto* stable = std::get_if<Stable>(&message)) {
    if (stable->generation == view_.generation) retained_.DropThrough(stable->through);
  } else if (auto* halt = std::get_if<Halt>(&message)) {
    OnHalt(*halt, &effects);
  } else if (auto* recall = std::get_if<Recall>(&message)) {
    OnRecall(*recall, &effects);
  } else if (auto* notice = std::get_if<Notice>(&message)) {
    if (notice->generation == view_.generation) effects.notice = std::move(notice->text);
  } else if (const auto* membership = std::get_if<MembershipNotice>(&message)) {
    if (membership->generation == view_.generation) membership_notice_ = *membership;
  }
  GoOn(now, &effects);
  return effects;
}

void Session::OnWelcome(const Welcome& welcome, Effects* effects) {
  if (welcome.session != session_ || welcome.controller_incarnation < controller_incarnation_) return;
  if (welcome.controller_incarnation != controller_incarnation_) slots_.Clear();
  controller_incarnation_ = welcome.controller_incarnation;
  missing_ranks_ = welcome.missing_ranks;
  waiting_ = welcome.waiting;
  needed_ = welcome.needed;
  welcomed_ = true;
  FlushInto(effects);
}

void Session::OnView(View view, Effects* effects) {
  if (view.generation == view_.generation) return;  // sent again in a new session
  if (state_ != State::kJoining) {
    Remove({completion::Code::kPeerLost, "the membership of the job changed; call shutdown() and init() again"},
           effects);
    return;
  }
  for (size_t i = 0; i < view.members.size(); ++i) {
    if (view.members[i].worker_incarnation != identity_.incarnation) continue;
    view_ = std::move(view);
    position_ = static_cast<int>(i);
    knows_all_hosts_ =
        std::all_of(view_.members.begin(), view_.members.end(), [](const Member& m) { return m.known(); });
    sets_.Reset(view_.members, self().rank);
    replayer_.Reset(view_.generation, self().rank);
    state_ = State::kMember;
    effects->joined = true;
    return;
  }
}

void Session::OnRemoved(const Removed& removed, Effects* effects) {
  if (removed.generation.number != 0 && removed.generation != view_.generation) return;
  completion::Code code = completion::Code::kPeerLost;
  if (removed.kind == RemovedKind::kRefused) code = completion::Code::kRefused;
  if (removed.kind == RemovedKind::kRetired) code = completion::Code::kRetired;
  Remove({code, removed.reason}, effects);
}

void Session::OnHalt(const Halt& halt, Effects* effects) {
  if (halt.generation != view_.generation || !replayer_.Halt(halt.phase)) return;
  Told();
  effects->send.emplace_back(Halted{view_.generation, halt.phase, received_through_, in_flight_.completed_through(),
                                    replayer_.cursor()->next()});
}

void Session::OnRecall(const Recall& recall, Effects* effects) {
  if (recall.generation != view_.generation) return;
  Recalled recalled;
  recalled.generation = view_.generation;
  recalled.items = retained_.Find(recall.indices);
  if (recall.state) {
    recalled.view = view_;
    recalled.process_sets = sets_.Made();
  }
  effects->send.emplace_back(std::move(recalled));
}

void Session::Fail(std::string what, Effects* effects) {
  completion::Result end = Defect(what);
  effects->send.emplace_back(Failed{view_.generation, end.text, Rank()});
  Remove(std::move(end), effects);
}

void Session::Remove(completion::Result end, Effects* effects) {
  // A joiner that gives up takes its Hello back; who was refused has none.
  const bool turned_away = end.code == completion::Code::kRefused || end.code == completion::Code::kRetired;
  if (state_ == State::kJoining && linked_ && !turned_away) effects->send.emplace_back(Leave{});
  if (state_ == State::kLeaving) {
    // A worker that leaves gets what it wants: the end of its membership.
    end.code = completion::Code::kShutDown;
    // Nobody but its agent needs it any more, which has to know that it was about to leave (MayHaveFinished).
    if (linked_ && !replayer_.negotiates()) effects->send.emplace_back(MakeLeave());
  }
  end_ = std::move(end);
  state_ = State::kRemoved;
  for (auto& operation : table_.TakeOpen()) effects->endings.push_back(std::move(operation));
  unannounced_.clear();
  effects->removed = true;
}

// ---- items

bool Session::Expected(const Item& item) const {
  if (item.index <= received_through_ || item.phase != replayer_.phase()) return false;
  if (std::holds_alternative<std::monostate>(item.body)) return false;
  if (std::holds_alternative<Resume>(item.body)) return replayer_.mode() == WorkerState::kHalted;
  const auto* replay = std::get_if<Replay>(&item.body);
  return replayer_.negotiates() && (replay == nullptr || !replay->period.batches.empty());
}

void Session::OnItem(Item item, TimePoint now, Effects* effects) {
  if (item.generation != view_.generation || state_ == State::kBroken) return;
  if (Expected(item)) {
    protocol_errors_ = 0;
    return TakeItem(std::move(item), now, effects);
  }
  // The two sides disagree: begin a new session.
  if (++protocol_errors_ <= kProtocolErrorsMax) return SayHello(effects);
  Fail(absl::StrCat("the controller sent item ", item.index, " of phase ", item.phase, " to a worker at item ",
                    received_through_, " of phase ", replayer_.phase()),
       effects);
}

void Session::TakeItem(Item item, TimePoint now, Effects* effects) {
  received_through_ = item.index;
  // Who leaves waits until all have received it.
  const bool awaited = std::holds_alternative<Resume>(item.body) || std::holds_alternative<Withdraw>(item.body);
  auto* batch = std::get_if<Batch>(&item.body);
  if (batch != nullptr && !slots_.Expand(batch)) return Fail("the controller named an empty slot", effects);
  retained_.Add(item);
  if (auto* replay = std::get_if<Replay>(&item.body)) {
    in_flight_.Note(item.index);
    unannounced_.clear();
    replayer_.Begin(item.index, std::move(replay->period), now);
    if (state_ == State::kLeaving) replayer_.WantBreak(BreakReason::kLeave, {});
  } else if (const auto* resume = std::get_if<Resume>(&item.body)) {
    if (!replayer_.End(*resume)) return Fail("the controller ended a replay that this worker is not in", effects);
    in_flight_.NoteResume(item.index, resume->replay_index, replayer_.begun().Seqs());
    unannounced_ = table_.Open();
    if (state_ == State::kLeaving && welcomed_) effects->send.emplace_back(MakeLeave());
    FlushInto(effects);
  } else if (const auto* withdraw = std::get_if<Withdraw>(&item.body)) {
    in_flight_.Note(item.index);
    if (!replayer_.TakeBackInto(*withdraw, effects)) {
      return Fail("the controller withdraws a batch with a tensor on an accelerator, which cannot be withdrawn",
                  effects);
    }
    for (const TakeBack& back : effects->withdraw) reader_.TakingBack(back.process_set, back.names);
  } else if (const auto* enter = std::get_if<Enter>(&item.body); enter != nullptr && !replayer_.Enters(*enter)) {
    in_flight_.Note(item.index, {view_.generation.number, enter->replay_index, enter->seq});
  } else {
    Execute(std::move(item), effects);
  }
  if (replayer_.begun().empty()) retained_.ForgetBegun();
  const bool tells = ++items_untold_ >= kItemsUntoldMax || (awaited && effects->send.empty());
  if (tells && Talks()) effects->send.emplace_back(MakeAck());
}

void Session::Execute(Item item, Effects* effects) {
  Work work;
  if (!reader_.Read(std::move(item), &work)) {
    Fail(absl::StrCat("the controller dispatched \"", work.error.text, "\" which is not open here"), effects);
    for (auto& operation : work.operations) {
      if (operation != nullptr) effects->endings.push_back(std::move(operation));
    }
    return;
  }
  if (work.kind == Work::Kind::kBatch && work.operations.empty()) {
    return Fail("the controller dispatched a batch without tensors", effects);
  }
  if (work.kind == Work::Kind::kSetChanged) {
    if (work.removed) {
      sets_.Remove(work.changed_set.id);
      slots_.Forget(work.changed_set.id);
    } else {
      sets_.Add(work.changed_set);
    }
  }
  in_flight_.Give(work);
  effects->work.push_back(std::move(work));
}

// ---- requests

completion::Result Session::Submit(const std::shared_ptr<Operation>* operations, size_t count, TimePoint now,
                                   Effects* effects) {
  if (state_ == State::kLeaving || state_ == State::kLeft) {
    return {completion::Code::kShutDown, "this process has called shutdown()"};
  }
  if (state_ == State::kRemoved) return end_;
  for (size_t i = 0; i < count; ++i) {
    if (table_.Add(operations[i])) continue;
    for (size_t added = 0; added < i; ++added) table_.Remove(*operations[added]);
    return {completion::Code::kDuplicateName,
            absl::StrCat("a tensor named \"", operations[i]->request.name,
                         "\" is still being processed; wait for it, or give this one another name")};
  }
  for (size_t i = 0; i < count; ++i) {
    if (operations[i]->request.signature.op == OpKind::kJoin) reader_.Join(operations[i]);
    Opened(operations[i], now);
  }
  GoOn(now, effects);
  return {};
}

void Session::Opened(const std::shared_ptr<Operation>& operation, TimePoint now) {
  if (replayer_.negotiates()) {
    unannounced_.push_back(operation);
  } else if (replayer_.mode() == WorkerState::kReplay) {
    replayer_.Open(*operation, now);
  }
  // HALTED: it is announced when negotiation goes on (W9).
}

void Session::GoOn(TimePoint now, Effects* effects) {
  if (!member()) return;
  replayer_.StartInto(now, effects);
  if (!welcomed_) return;
  if (absl::optional<Break> wanted = replayer_.TakeBreak()) effects->send.emplace_back(*std::move(wanted));
  // The controller lets it go only then.
  if (state_ == State::kLeaving && replayer_.negotiates() && !executing() && AckDue()) {
    effects->send.emplace_back(MakeAck());
  }
}

Session::Effects Session::Flush() {
  Effects effects;
  FlushInto(&effects);
  return effects;
}

void Session::FlushInto(Effects* effects) {
  if (unannounced_.empty() || !welcomed_ || state_ != State::kMember || !replayer_.negotiates()) return;
  Announce announce;
  announce.generation = view_.generation;
  announce.phase = replayer_.phase();
  announce.received_through = received_through_;
  announce.completed_through = in_flight_.completed_through();
  for (const auto& operation : unannounced_) slots_.Announce(operation->request, &announce);
  unannounced_.clear();
  Told();
  effects->send.emplace_back(std::move(announce));
}

void Session::Completed(const Work& work) {
  in_flight_.Done(work);
  for (const auto& operation : work.operations) {
    if (operation != nullptr) table_.Remove(*operation);
  }
  if (work.kind == Work::Kind::kLeaveDone && state_ == State::kLeaving) {
    state_ = State::kLeft;
    end_ = {completion::Code::kShutDown, "shutdown() was called before this operation was answered"};
  }
}

Session::Effects Session::AfterCompleted(TimePoint now) {
  Effects effects;
  if (state_ == State::kLeft) {
    effects.endings = table_.TakeOpen();
    unannounced_.clear();
    return effects;
  }
  GoOn(now, &effects);
  if (!replayer_.negotiates() || executing() || table_.open() == 0) return effects;
  FlushInto(&effects);
  if (effects.send.empty() && AckDue()) effects = SendAck();
  return effects;
}

Session::Effects Session::Withdrawn(Work work, TimePoint now) {
  Effects effects;
  in_flight_.Done(work);
  const bool over = state_ == State::kLeft || state_ == State::kRemoved;
  for (auto& operation : work.operations) {
    if (operation == nullptr) continue;
    reader_.TakenBack(operation->request);
    if (over) {
      table_.Remove(*operation);
      effects.endings.push_back(std::move(operation));
    } else if (table_.Reopen(operation)) {
      Opened(operation, now);
    }
  }
  FlushInto(&effects);
  GoOn(now, &effects);
  return effects;
}

bool Session::AckDue() const {
  return told_received_ != received_through_ || told_completed_ != in_flight_.completed_through();
}

Session::Effects Session::SendAck() {
  Effects effects;
  if (Talks() && AckDue()) effects.send.emplace_back(MakeAck());
  return effects;
}

Leave Session::MakeLeave() {
  Told();
  return {view_.generation, received_through_, in_flight_.completed_through()};
}

Ack Session::MakeAck() {
  Told();
  return {view_.generation, received_through_, in_flight_.completed_through()};
}

void Session::Told() {
  told_received_ = received_through_;
  told_completed_ = in_flight_.completed_through();
  items_untold_ = 0;
}

// ---- waits for the own script

TimePoint Session::NextDeadline() const { return member() ? replayer_.PatienceEnds() : TimePoint::Infinite(); }

Session::Effects Session::Tick(TimePoint now) {
  Effects effects;
  if (member()) replayer_.Tick(now);
  GoOn(now, &effects);
  return effects;
}

void Session::Fill(WorkerReport* report, TimePoint now) const {
  report->worker_incarnation = identity_.incarnation;
  report->generation = view_.generation;
  report->open_requests = static_cast<uint32_t>(table_.open());
  if (const Operation* oldest = table_.Oldest()) {
    report->oldest_open = oldest->request.name;
    report->oldest_open_ms = std::max<int64_t>(now.MsSince(TimePoint(oldest->submitted_ns)), 1);
  }
  report->cache_hits = slots_.hits();
  report->cache_misses = slots_.misses();
  replayer_.Fill(report, now);
}

// ---- what was submitted, and the end

Session::Effects Session::DataPlaneFailed(const std::string& reason, Rank suspect) {
  Effects effects;
  if (state_ != State::kMember && state_ != State::kLeaving) return effects;
  effects.send.emplace_back(Failed{view_.generation, reason, suspect});
  if (state_ == State::kLeaving) {
    Remove({completion::Code::kShutDown, reason}, &effects);
  } else {
    state_ = State::kBroken;
    end_ = {completion::Code::kPeerLost, reason};
  }
  return effects;
}

Session::Effects Session::GiveUp(completion::Result end) {
  Effects effects;
  if (state_ == State::kLeft || state_ == State::kRemoved) return effects;
  // The others would wait for its part.
  if (state_ == State::kLeaving && linked_ && executing()) {
    effects.send.emplace_back(
        Failed{view_.generation, absl::StrCat("it ends inside a collective: ", end.text), Rank()});
  }
  Remove(std::move(end), &effects);
  return effects;
}

Session::Effects Session::BeginLeave(TimePoint now) {
  Effects effects;
  if (state_ == State::kMember) {
    state_ = State::kLeaving;
    if (welcomed_ && replayer_.negotiates()) effects.send.emplace_back(MakeLeave());
    // Otherwise it is sent after the Resume.
    replayer_.WantBreak(BreakReason::kLeave, {});
    GoOn(now, &effects);
  } else if (state_ != State::kLeaving && state_ != State::kLeft && state_ != State::kRemoved) {
    // Joining, or broken: nothing more will come.
    Remove({completion::Code::kShutDown, "shutdown() was called"}, &effects);
  }
  return effects;
}

}  // namespace farandole::worker::session
