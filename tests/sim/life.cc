#include "tests/sim/life.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/version.h"
#include "tests/sim/agent.h"

namespace farandole::sim {
namespace {

// As in worker/runtime.*.
constexpr int64_t kAckMs = 1000;
constexpr int64_t kLeaveMs = 5000;
constexpr int64_t kVerdictMs = 6000;
// As in worker/agent_client.*.
constexpr int64_t kRetryFirstMs = 50;
constexpr int64_t kRetryMaxMs = 500;

}  // namespace

Life::Life(World* world, Process* process, int host, Session::Identity identity, Callbacks callbacks)
    : world_(world),
      process_(process),
      host_(host),
      identity_(identity),
      callbacks_(std::move(callbacks)),
      session_(identity),
      executor_(
          world, process,
          {[this](Work work) { OnDone(std::move(work)); },
           [this](Work work, const absl::Status& status, Rank suspect) { OnBroken(std::move(work), status, suspect); },
           [this](Work work) { OnWithdrawn(std::move(work)); }}) {}

void Life::Start() {
  const int64_t timeout_ms = world_->setting.start_timeout_ms;
  const TimePoint now = world_->simulation.now();
  process_->At(now.PlusMs(timeout_ms), [this] {
    if (session_.state() == State::kJoining) Apply(session_.GiveUp({Code::kTimeout, "start timeout"}));
  });
  process_->At(now.PlusMs(timeout_ms - std::min<int64_t>(1000, timeout_ms / 4)), [this] {
    if (session_.state() == State::kJoining) Apply(session_.AskAgain());
  });
  retry_ms_ = kRetryFirstMs;
  Connect();
}

void Life::Connect() {
  if (stopping_) return;
  stream_ = world_->agents[host_]->Accept(process_);
  stream_->down.on_message = [this, stream = stream_](FromAgent from) {
    if (stream == stream_) OnLocal(std::move(from));
  };
  stream_->down.on_closed = [this, stream = stream_] {
    if (stream == stream_) LinkClosed();
  };
  stream_->up.Send(LocalUp(Attach{identity_.incarnation, kVersion}));
}

void Life::LinkClosed() {
  stream_ = nullptr;
  attached_ = false;
  OnLinkState(LinkState{false, "the agent closed the connection", false});
  process_->At(world_->simulation.now().PlusMs(retry_ms_), [this] { Connect(); });
  retry_ms_ = std::min(2 * retry_ms_, kRetryMaxMs);
}

void Life::OnLocal(FromAgent from) {
  if (std::holds_alternative<Attached>(from.message)) {
    attached_ = true;
    retry_ms_ = kRetryFirstMs;
  } else if (auto* refused = std::get_if<Refused>(&from.message)) {
    world_->checker.Fail(absl::StrCat("the agent refuses a worker: ", refused->reason));
  } else if (auto* state = std::get_if<LinkState>(&from.message)) {
    OnLinkState(*state);
  } else if (auto* down = std::get_if<WorkerDown>(&from.message)) {
    OnReceived(std::move(*down), from.origin);
  }
}

void Life::OnLinkState(const LinkState& state) {
  linked_ = state.connected;
  if (!state.connected) {
    session_.LinkDown();
    return;
  }
  Apply(session_.LinkUp());
  if (world_->bugs.batch_applied_twice && last_batch_ != nullptr) executor_.Push(*last_batch_);
}

void Life::OnReceived(WorkerDown message, const Origin& origin) {
  world_->coverage->Said(message);
  const uint64_t session = said_session_;
  if (const auto* item = std::get_if<Item>(&message)) last_item_ = *item;
  Session::Effects effects = session_.Received(std::move(message), world_->simulation.now());
  const bool matters = effects.joined || !effects.work.empty();
  if (matters && (origin.session != session || origin.controller_incarnation != generation().controller_incarnation)) {
    world_->checker.Fail(absl::StrCat("what the controller ", origin.controller_incarnation, " said to session ",
                                      origin.session, " took effect in session ", session));
  }
  Apply(std::move(effects));
  if (session_.AckDue()) ArmAckTimer();
}

bool Life::ReceiveStale(Item item) {
  if (session_.state() != State::kMember || item.generation == generation()) return false;
  if (world_->bugs.generation_not_checked) item.generation = generation();
  Session::Effects effects = session_.Received(std::move(item), world_->simulation.now());
  if (!effects.work.empty() || !effects.send.empty() || effects.removed) {
    world_->checker.Fail("an item of an older generation took effect");
  }
  Apply(std::move(effects));
  return true;
}

void Life::ArmAckTimer() {
  if (ack_timer_armed_) return;
  ack_timer_armed_ = true;
  process_->At(world_->simulation.now().PlusMs(kAckMs), [this] { AckTimeOver(); });
}

void Life::AckTimeOver() {
  ack_timer_armed_ = false;
  Apply(session_.SendAck());
  if (session_.executing() && !stopped_) ArmAckTimer();
}

Result Life::Submit(std::shared_ptr<Submission> submission) {
  Effects effects;
  const Result result = session_.Submit(submission, world_->simulation.now(), &effects);
  if (!result.ok()) return result;
  unanswered_[submission.get()] = submission;
  world_->checker.Submitted(generation(), session_.self().rank, *submission);
  Apply(std::move(effects));
  if (world_->random().Percent(40)) {
    Apply(session_.Flush());
  } else if (!flush_posted_) {
    flush_posted_ = true;
    process_->AfterUs(world_->random().Between(5, 200), [this] {
      flush_posted_ = false;
      Apply(session_.Flush());
    });
  }
  return result;
}

void Life::BeginLeave() {
  Apply(session_.Flush());
  Apply(session_.BeginLeave(world_->simulation.now()));
  process_->At(world_->simulation.now().PlusMs(kLeaveMs), [this] {
    Apply(session_.GiveUp({Code::kShutDown, "shutdown(): the controller did not answer"}));
  });
}

void Life::Stop() {
  stopping_ = true;
  Apply(session_.GiveUp({Code::kShutDown, "shutdown() was called"}));
  StoppedIfIdle();
}

void Life::StoppedIfIdle() {
  if (!stopping_ || stopped_ || executor_.running() || finishing_ > 0) return;
  stopped_ = true;
  if (stream_ != nullptr) stream_->CloseFromBelow();
  stream_ = nullptr;
  if (!unanswered_.empty()) {
    world_->checker.Fail(absl::StrCat("I3: pid ", identity_.pid, " never had an answer to", Unanswered()));
  }
  process_->AfterUs(world_->random().Between(1, 100), callbacks_.on_stopped);
}

void Life::OnDone(Work work) {
  auto done = std::make_shared<Work>(std::move(work));
  session_.Completed(*done);
  Observe();
  if (done->kind == Work::Kind::kBatch) last_batch_ = done;
  for (const auto& operation : done->operations) {
    if (operation == nullptr) continue;
    if (done->kind == Work::Kind::kSetChanged) operation->value = done->changed_set.id;
    Answer(operation, done->error, done->instance.anchor);
  }
  // Between the two steps the script and the link may do something, as they can in the runtime.
  ++finishing_;
  process_->AfterUs(world_->random().Percent(50) ? 0 : world_->random().Between(1, 60), [this] {
    --finishing_;
    Apply(session_.AfterCompleted(world_->simulation.now()));
    StoppedIfIdle();
  });
}

void Life::OnBroken(Work work, const absl::Status& reason, Rank suspect) {
  const std::string text = absl::StrCat("a collective failed: ", reason.message());
  Apply(session_.DataPlaneFailed(text, suspect));
  if (session_.state() == State::kBroken) {
    for (auto& operation : work.operations) parked_.push_back(std::move(operation));
    process_->At(world_->simulation.now().PlusMs(kVerdictMs), [this, text] {
      Apply(session_.GiveUp({Code::kPeerLost, text}));
    });
  } else {
    for (const auto& operation : work.operations) Answer(operation, session_.end(), 0);
  }
  StoppedIfIdle();
}

void Life::OnWithdrawn(Work work) {}

std::string Life::Unanswered() const {
  std::vector<std::string> names;
  for (const auto& [key, operation] : unanswered_) names.push_back(operation->request.name);
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string& name : names) absl::StrAppend(&text, " ", name);
  return text;
}

void Life::Apply(Session::Effects effects) {
  for (WorkerUp& up : effects.send) Send(std::move(up));
  if (effects.joined) {
    world_->checker.Joined(session_.view(), identity_.incarnation);
    executor_.SetGroup(generation(), session_.self().rank, static_cast<int>(session_.view().members.size()));
    process_->AfterUs(world_->random().Between(1, 100), callbacks_.on_joined);
  }
  for (Work& work : effects.work) {
    world_->checker.Taken(generation(), session_.self().rank, work.instance.anchor);
    world_->execution.Taken(generation(), session_.self().rank, work);
    executor_.Push(std::move(work));
  }
  Observe();
  if (effects.removed || !effects.endings.empty()) EndAll(std::move(effects));
  const bool over = session_.state() == State::kLeft || session_.state() == State::kRemoved;
  if (over && !end_told_) {
    end_told_ = true;
    process_->AfterUs(world_->random().Between(1, 100), callbacks_.on_end);
  }
}

void Life::Send(WorkerUp up) {
  if (auto* hello = std::get_if<Hello>(&up)) {
    said_session_ = hello->session;
    if (world_->bugs.open_requests_left_out) hello->open_requests.clear();
    if (world_->bugs.received_overstated && hello->received_through > 0) ++hello->received_through;
  }
  if (!attached_ || stream_ == nullptr) return;
  world_->coverage->Said(up);
  stream_->up.Send(LocalUp(std::move(up)));
}

void Life::EndAll(Session::Effects effects) {
  const Result end = session_.end();
  if (effects.removed) {
    for (Work& work : executor_.Abort(end.text)) {
      for (auto& operation : work.operations) effects.endings.push_back(std::move(operation));
    }
    for (auto& operation : parked_) effects.endings.push_back(std::move(operation));
    parked_.clear();
  }
  for (const auto& operation : effects.endings) Answer(operation, end, 0);
}

void Life::Answer(const std::shared_ptr<Operation>& operation, const Result& result, uint64_t item) {
  auto submission = std::static_pointer_cast<Submission>(operation);
  world_->checker.Answered(generation(), session_.self().rank, *submission, result, item);
  if (submission->done()) return;
  submission->Finish(result);
  unanswered_.erase(submission.get());
  world_->coverage->Hit(result.ok()                      ? "answer ok"
                        : result.code == Code::kMismatch ? "answer mismatch"
                        : result.code == Code::kPeerLost ? "answer peer lost"
                                                         : "answer shut down");
  // One whose start timeout ended just then is no fault.
  if (result.code == Code::kPeerLost && world_->quiet_from <= world_->checker.opened(generation()) &&
      !absl::StrContains(result.text, "gave up init()")) {
    world_->checker.Fail(absl::StrCat("after all faults: ", result.text));
  }
  process_->AfterUs(world_->random().Between(1, 60), [this, submission] { callbacks_.on_answered(submission); });
}

void Life::Observe() {
  if (world_->simulation.tracing() && session_.state() != state_) {
    world_->simulation.Trace(absl::StrCat("pid ", identity_.pid, " state ", static_cast<int>(state_), " -> ",
                                          static_cast<int>(session_.state()), " ", session_.end().text));
  }
  world_->coverage->Session(state_, session_.state());
  state_ = session_.state();
}

void Life::BreakLink(TimePoint late) {
  if (stream_ != nullptr) stream_->Break(late);
}

void Life::Vanish() {
  if (joined()) world_->data_plane.Gone(generation(), session_.self().rank, absl::AbortedError("dead"));
  if (stream_ != nullptr) stream_->CloseFromBelow();
  stream_ = nullptr;
}

}  // namespace farandole::sim
