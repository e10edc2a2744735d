#include "worker/session.h"

#include "absl/strings/str_cat.h"
#include "proto/version.h"

namespace farandole {
namespace {

constexpr int kItemsUntoldMax = 64;
// Phases other than 0 begin with the first Replay item, which no controller of this release sends.
constexpr uint32_t kPhase = 0;

Result NotOpen(const std::string& name) {
  return {Code::kInternal, absl::StrCat("the controller dispatched \"", name,
                                        "\" which is not open here; this is a defect of Farandole, please report it")};
}

}  // namespace

Session::Session(Identity identity) : identity_(identity) {}

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
  hello.phase = kPhase;
  hello.received_through = received_through_;
  hello.completed_through = completed_through_;
  for (const auto& operation : table_.Open()) hello.open_requests.push_back(operation->request);
  hello.leaving = state_ == State::kLeaving;
  unannounced_.clear();
  Told();
  effects->send.emplace_back(std::move(hello));
}

Session::Effects Session::Received(WorkerDown message) {
  Effects effects;
  if (state_ == State::kLeft || state_ == State::kRemoved) return effects;
  if (auto* welcome = std::get_if<Welcome>(&message)) {
    OnWelcome(*welcome, &effects);
  } else if (auto* removed = std::get_if<Removed>(&message)) {
    OnRemoved(*removed, &effects);
  } else if (!welcomed_) {
    return effects;  // of an older session
  } else if (auto* item = std::get_if<Item>(&message)) {
    OnItem(std::move(*item), &effects);
  } else if (auto* view = std::get_if<View>(&message)) {
    OnView(std::move(*view), &effects);
  }
  // Stable lets a worker drop items that it retained for a restarted controller; this release retains none.
  return effects;
}

void Session::OnWelcome(const Welcome& welcome, Effects* effects) {
  if (welcome.session != session_ || welcome.controller_incarnation < controller_incarnation_) return;
  controller_incarnation_ = welcome.controller_incarnation;
  missing_ranks_ = welcome.missing_ranks;
  welcomed_ = true;
  Effects announced = Flush();
  for (WorkerUp& up : announced.send) effects->send.push_back(std::move(up));
}

void Session::OnView(View view, Effects* effects) {
  if (view.generation == view_.generation) return;  // sent again in a new session
  if (state_ != State::kJoining) {
    Remove({Code::kPeerLost, "the membership of the job changed; call shutdown() and init() again"}, effects);
    return;
  }
  for (size_t i = 0; i < view.members.size(); ++i) {
    if (view.members[i].worker_incarnation != identity_.incarnation) continue;
    view_ = std::move(view);
    position_ = static_cast<int>(i);
    state_ = State::kMember;
    effects->joined = true;
    return;
  }
}

void Session::OnRemoved(const Removed& removed, Effects* effects) {
  if (removed.generation.number != 0 && removed.generation != view_.generation) return;
  Code code = Code::kPeerLost;
  if (removed.kind == RemovedKind::kRefused) code = Code::kRefused;
  Remove({code, removed.reason}, effects);
}

void Session::Remove(Result end, Effects* effects) {
  // A joiner that gives up takes its Hello back; who was refused has none.
  if (state_ == State::kJoining && linked_ && end.code != Code::kRefused) effects->send.emplace_back(Leave{});
  // A worker that leaves gets what it wants: the end of its membership.
  if (state_ == State::kLeaving) end.code = Code::kShutDown;
  end_ = std::move(end);
  state_ = State::kRemoved;
  effects->endings = table_.TakeOpen();
  unannounced_.clear();
  effects->removed = true;
}

void Session::OnItem(Item item, Effects* effects) {
  if (item.generation != view_.generation || item.phase != kPhase || state_ == State::kBroken) return;
  if (item.index <= received_through_) {
    // Indices rise within a session; the two sides disagree, so begin a new one.
    SayHello(effects);
    return;
  }
  received_through_ = item.index;
  Work work;
  work.instance = {view_.generation.number, item.index, 0};
  if (!Assign(std::move(item), &work)) {
    Result bug = NotOpen(work.error.text);
    effects->send.emplace_back(Failed{view_.generation, bug.text, Rank()});
    Remove(std::move(bug), effects);
    for (auto& operation : work.operations) effects->endings.push_back(std::move(operation));
    return;
  }
  effects->work.push_back(std::move(work));
  if (++items_untold_ >= kItemsUntoldMax) effects->send.emplace_back(MakeAck());
}

bool Session::Assign(Item item, Work* work) {
  if (auto* batch = std::get_if<Batch>(&item.body)) {
    work->kind = Work::Kind::kBatch;
    work->process_set = batch->process_set;
    work->operations.reserve(batch->entries.size());
    for (BatchEntry& entry : batch->entries) {
      if (!Take(batch->process_set, entry.name, work)) return false;
      work->first_dims.push_back(std::move(entry.first_dims));
    }
  } else if (auto* error = std::get_if<ErrorItem>(&item.body)) {
    work->kind = Work::Kind::kError;
    work->process_set = error->process_set;
    for (const std::string& name : error->names) {
      if (!Take(error->process_set, name, work)) return false;
    }
    work->error = {error->kind == ErrorKind::kLeft ? Code::kPeerLost : Code::kMismatch, std::move(error->text)};
  } else if (auto* barrier = std::get_if<BarrierDone>(&item.body)) {
    work->kind = Work::Kind::kBarrierDone;
    work->process_set = barrier->process_set;
    return Take(barrier->process_set, barrier->name, work);
  } else if (std::holds_alternative<LeaveDone>(item.body)) {
    work->kind = Work::Kind::kLeaveDone;
  }
  return true;
}

bool Session::Take(uint32_t process_set, const std::string& name, Work* work) {
  std::shared_ptr<Operation> operation = table_.Assign(process_set, name);
  if (operation == nullptr) {
    work->error.text = name;
    return false;
  }
  work->operations.push_back(std::move(operation));
  return true;
}

Result Session::Submit(std::shared_ptr<Operation> operation) {
  if (state_ == State::kLeaving || state_ == State::kLeft) {
    return {Code::kShutDown, "this process has called shutdown()"};
  }
  if (state_ == State::kRemoved) return end_;
  if (!table_.Add(operation)) {
    return {Code::kDuplicateName,
            absl::StrCat("a tensor named \"", operation->request.name,
                         "\" is still being processed; wait for it, or give this one another name")};
  }
  unannounced_.push_back(std::move(operation));
  return {};
}

Session::Effects Session::Flush() {
  Effects effects;
  if (unannounced_.empty() || !welcomed_ || state_ != State::kMember) return effects;
  Announce announce;
  announce.generation = view_.generation;
  announce.phase = kPhase;
  announce.received_through = received_through_;
  announce.completed_through = completed_through_;
  announce.requests.reserve(unannounced_.size());
  for (const auto& operation : unannounced_) announce.requests.push_back(operation->request);
  unannounced_.clear();
  Told();
  effects.send.emplace_back(std::move(announce));
  return effects;
}

void Session::Completed(const Work& work) {
  completed_through_ = work.instance.anchor;
  for (const auto& operation : work.operations) table_.Remove(*operation);
  if (work.kind == Work::Kind::kLeaveDone && state_ == State::kLeaving) {
    state_ = State::kLeft;
    end_ = {Code::kShutDown, "shutdown() was called before this operation was answered"};
  }
}

Session::Effects Session::AfterCompleted() {
  Effects effects;
  if (state_ == State::kLeft) {
    effects.endings = table_.TakeOpen();
    unannounced_.clear();
    return effects;
  }
  if (completed_through_ != received_through_ || table_.open() == 0) return effects;
  effects = Flush();
  if (effects.send.empty() && AckDue()) effects = SendAck();
  return effects;
}

bool Session::AckDue() const { return told_received_ != received_through_ || told_completed_ != completed_through_; }

Session::Effects Session::SendAck() {
  Effects effects;
  const bool talks = state_ == State::kMember || state_ == State::kLeaving;
  if (talks && welcomed_ && AckDue()) effects.send.emplace_back(MakeAck());
  return effects;
}

Ack Session::MakeAck() {
  Told();
  return {view_.generation, received_through_, completed_through_};
}

void Session::Told() {
  told_received_ = received_through_;
  told_completed_ = completed_through_;
  items_untold_ = 0;
}

Session::Effects Session::DataPlaneFailed(const std::string& reason, Rank suspect) {
  Effects effects;
  if (state_ != State::kMember && state_ != State::kLeaving) return effects;
  effects.send.emplace_back(Failed{view_.generation, reason, suspect});
  if (state_ == State::kLeaving) {
    Remove({Code::kShutDown, reason}, &effects);
  } else {
    state_ = State::kBroken;
    end_ = {Code::kPeerLost, reason};
  }
  return effects;
}

Session::Effects Session::GiveUp(Result end) {
  Effects effects;
  if (state_ != State::kLeft && state_ != State::kRemoved) Remove(std::move(end), &effects);
  return effects;
}

Session::Effects Session::BeginLeave() {
  Effects effects;
  if (state_ == State::kMember) {
    state_ = State::kLeaving;
    if (welcomed_) effects.send.emplace_back(Leave{view_.generation});
  } else if (state_ != State::kLeaving && state_ != State::kLeft && state_ != State::kRemoved) {
    // Joining, or broken: nothing more will come.
    Remove({Code::kShutDown, "shutdown() was called"}, &effects);
  }
  return effects;
}

}  // namespace farandole
