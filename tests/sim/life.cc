#include "tests/sim/life.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/version.h"
#include "tests/sim/agent.h"

namespace farandole::sim {
namespace {

// As in worker/runtime.* and worker/control/start_limit.*.
constexpr int64_t kAckMs = 1000;
constexpr int64_t kLeaveMs = 5000;
constexpr int64_t kVerdictMs = 6000;
// As in worker/agent_client.*.
constexpr int64_t kRetryFirstMs = 50;
constexpr int64_t kRetryMaxMs = 500;

}  // namespace

Life::Life(World* world, Process* process, int host, worker::session::Session::Identity identity, Callbacks callbacks)
    : world_(world),
      process_(process),
      host_(host),
      identity_(identity),
      callbacks_(std::move(callbacks)),
      session_(identity),
      executor_(world, process,
                {[this](worker::session::Work work) { OnDone(std::move(work)); },
                 [this](worker::session::Work work, const absl::Status& status, Rank suspect) {
                   OnBroken(std::move(work), status, suspect);
                 },
                 [this](worker::session::Work work) { OnWithdrawn(std::move(work)); }}) {}

void Life::Start() {
  const bool elastic = identity_.elastic.min_size > 0;
  const int64_t start_ms = world_->setting.start_timeout_ms;
  const int64_t timeout_ms = elastic ? world_->setting.elastic_timeout_ms : start_ms;
  const TimePoint now = world_->simulation.now();
  if (elastic) {
    process_->At(now.PlusMs(start_ms), [this] {
      if (!session_.answered()) GiveUpInit({worker::completion::Code::kUnavailable, "nobody has answered"});
    });
  }
  process_->At(now.PlusMs(timeout_ms), [this] { GiveUpInit({worker::completion::Code::kTimeout, "start timeout"}); });
  process_->At(now.PlusMs(timeout_ms - std::min<int64_t>(1000, timeout_ms / 4)), [this] {
    if (session_.state() == State::kJoining) Apply(session_.AskAgain());
  });
  retry_ms_ = kRetryFirstMs;
  Connect();
}

void Life::GiveUpInit(worker::completion::Result end) {
  if (session_.state() != State::kJoining) return;
  // Who has heard of a view with it loses a member.
  world_->nobody_lost = false;
  Apply(session_.GiveUp(std::move(end)));
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
    if (state_ == State::kMember) world_->coverage->Worker(session_.replayer().mode(), "loses its link");
    session_.LinkDown();
    return;
  }
  Apply(session_.LinkUp());
  if (world_->bugs.batch_applied_twice && last_batch_ != nullptr) executor_.Push(*last_batch_);
}

void Life::OnReceived(WorkerDown message, const Origin& origin) {
  world_->coverage->Said(message);
  if (session_.state() == State::kMember || session_.state() == State::kLeaving) {
    world_->coverage->Worker(session_.replayer().mode(), message);
  }
  const uint64_t session = said_session_;
  const bool halts = std::holds_alternative<Halt>(message);
  bool withdraws = false;
  if (const auto* item = std::get_if<Item>(&message)) {
    last_item_ = *item;
    withdraws = std::holds_alternative<Withdraw>(item->body);
  }
  if (const auto* welcome = std::get_if<Welcome>(&message)) {
    if (welcome->session == session) registered_ = std::max(registered_, welcome->controller_incarnation);
  }
  if (world_->bugs.enter_by_what_is_in_flight) DecideByInFlight(&message);
  const uint32_t phase = session_.replayer().phase();
  worker::session::Effects effects = session_.Received(std::move(message), world_->simulation.now());
  const bool matters =
      effects.joined || !effects.work.empty() || !effects.withdraw.empty() || session_.replayer().phase() != phase;
  if (matters && (origin.session != session || origin.controller_incarnation != registered_)) {
    world_->checker.Fail(absl::StrCat("I5: what the controller ", origin.controller_incarnation, " said to session ",
                                      origin.session, " took effect in session ", session, " with controller ",
                                      registered_));
  }
  Apply(std::move(effects));
  if (session_.AckDue()) ArmAckTimer();
  if (withdraws && world_->on_withdraw != nullptr) std::exchange(world_->on_withdraw, nullptr)();
  if (halts && world_->on_halt != nullptr) std::exchange(world_->on_halt, nullptr)(process_);
}

void Life::DecideByInFlight(WorkerDown* message) const {
  auto* item = std::get_if<Item>(message);
  auto* enter = item == nullptr ? nullptr : std::get_if<Enter>(&item->body);
  if (enter == nullptr || !joined() || executor_.Runs({generation().number, enter->replay_index, enter->seq})) return;
  const auto self = std::find(enter->had_begun.begin(), enter->had_begun.end(), session_.self().rank);
  if (self != enter->had_begun.end()) enter->had_begun.erase(self);
}

bool Life::ReceiveStale(Item item) {
  if (session_.state() != State::kMember || item.generation == generation()) return false;
  if (world_->bugs.generation_not_checked) item.generation = generation();
  // What was possible before it does not come from it.
  Apply(session_.Tick(world_->simulation.now()));
  worker::session::Effects effects = session_.Received(std::move(item), world_->simulation.now());
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

void Life::ForgetAnswered() {
  if (!submitted_.empty()) Submission::PrefetchAll(submitted_.front());
  executed_.clear();
  if (told_count_ < told_.size()) return;
  told_.clear();
  told_count_ = 0;
  while (!submitted_.empty() && Answered(submitted_.front())) submitted_.pop_front();
}

bool Life::Answered(const Submission::Many& submissions) const {
  return unanswered_ == 0 ||
         std::all_of(submissions.begin(), submissions.end(), [](const auto& submission) { return submission->done(); });
}

worker::completion::Result Life::Submit(Submission::Many submissions) {
  worker::session::Effects effects;
  const WorkerState mode = session_.replayer().mode();
  const worker::completion::Result result =
      session_.Submit(submissions.data(), submissions.size(), world_->simulation.now(), &effects);
  if (!result.ok()) return result;
  world_->coverage->Submits(mode, submissions.size());
  unanswered_ += submissions.size();
  world_->checker.Submitted(generation(), session_.self().rank, submissions);
  submitted_.push_back(std::move(submissions));
  Apply(std::move(effects));
  if (!session_.has_unannounced()) return result;
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

void Life::Blocked(const Submission& submission) {
  if (session_.Blocked(submission, world_->simulation.now())) WatchPatience();
}

void Life::WatchPatience() {
  const TimePoint deadline = session_.NextDeadline();
  if (patience_watched_ <= deadline) return;
  patience_watched_ = deadline;
  process_->At(deadline, [this, deadline] {
    if (patience_watched_ == deadline) PatienceOver();
  });
}

void Life::PatienceOver() {
  patience_watched_ = TimePoint::Infinite();
  if (world_->bugs.patience_without_end) return;
  Apply(session_.Tick(world_->simulation.now()));
}

void Life::BeginLeave() {
  Apply(session_.Flush());
  Apply(session_.BeginLeave(world_->simulation.now()));
  process_->At(world_->simulation.now().PlusMs(kLeaveMs), [this] {
    Apply(session_.GiveUp({worker::completion::Code::kShutDown, "shutdown(): the controller did not answer"}));
  });
}

void Life::Stop() {
  stopping_ = true;
  Apply(session_.GiveUp({worker::completion::Code::kShutDown, "shutdown() was called"}));
  StoppedIfIdle();
}

void Life::StoppedIfIdle() {
  if (!stopping_ || stopped_ || executor_.running() || finishing_ > 0) return;
  stopped_ = true;
  if (stream_ != nullptr) stream_->CloseFromBelow();
  stream_ = nullptr;
  if (unanswered_ > 0) {
    world_->checker.Fail(absl::StrCat("I3: pid ", identity_.pid, " never had an answer to", Unanswered()));
  }
  process_->AfterUs(world_->random().Between(1, 100), callbacks_.on_stopped);
}

void Life::OnDone(worker::session::Work work) {
  executed_.push_back(std::move(work));
  worker::session::Work* const done = &executed_.back();
  session_.Completed(*done);
  Observe();
  if (world_->bugs.batch_applied_twice && done->kind == worker::session::Work::Kind::kBatch)
    last_batch_ = std::make_shared<worker::session::Work>(*done);
  if (done->kind == worker::session::Work::Kind::kSetChanged) {
    for (const auto& operation : done->operations) operation->value = static_cast<int32_t>(done->changed_set.id);
  }
  Answer(done->operations, done->error, done->item);
  // Between the two steps the script and the link may do something, as they can in the runtime.
  ++finishing_;
  process_->AfterUs(world_->random().Percent(50) ? 0 : world_->random().Between(1, 60), [this] {
    --finishing_;
    Apply(session_.AfterCompleted(world_->simulation.now()));
    StoppedIfIdle();
  });
}

void Life::OnBroken(worker::session::Work work, const absl::Status& reason, Rank suspect) {
  const std::string text = absl::StrCat("a collective failed: ", reason.message());
  Apply(session_.DataPlaneFailed(text, suspect));
  if (session_.state() == State::kBroken) {
    for (auto& operation : work.operations) {
      if (operation != nullptr) parked_.push_back(std::move(operation));
    }
    process_->At(world_->simulation.now().PlusMs(kVerdictMs), [this, text] {
      Apply(session_.GiveUp({worker::completion::Code::kPeerLost, text}));
    });
  } else {
    Answer(work.operations, session_.end(), 0);
  }
  StoppedIfIdle();
}

void Life::OnWithdrawn(worker::session::Work work) {
  Apply(session_.Withdrawn(std::move(work), world_->simulation.now()));
  StoppedIfIdle();
}

std::string Life::Unanswered() const {
  std::vector<std::string> names;
  for (const Submission::Many& together : submitted_) {
    for (const auto& submission : together) {
      if (!submission->done()) names.push_back(submission->request.name);
    }
  }
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string& name : names) absl::StrAppend(&text, " ", name);
  return text;
}

void Life::Apply(worker::session::Effects&& effects) {
  for (WorkerUp& up : effects.send) Send(std::move(up));
  if (effects.joined) {
    world_->checker.Joined(session_.view(), identity_.incarnation);
    executor_.SetGroup(generation(), session_.self().rank, static_cast<int>(session_.view().members.size()));
    process_->AfterUs(world_->random().Between(1, 100), callbacks_.on_joined);
  }
  for (worker::session::Work& work : effects.work) {
    if (work.item != 0) {
      world_->checker.Taken(generation(), session_.self().rank, work.item);
      world_->execution.Taken(generation(), session_.self().rank, work);
    }
    executor_.Push(std::move(work));
  }
  for (const worker::session::TakeBack& back : effects.withdraw) executor_.Withdraw(back.process_set, back.instance);
  Observe();
  if (effects.removed || !effects.endings.empty()) EndAll(&effects);
  const bool over = session_.state() == State::kLeft || session_.state() == State::kRemoved;
  if (over && !end_told_) {
    end_told_ = true;
    if (session_.state() == State::kLeft) world_->log.Left(generation(), identity_.incarnation);
    process_->AfterUs(world_->random().Between(1, 100), callbacks_.on_end);
  }
  WatchPatience();
}

void Life::Send(WorkerUp up) {
  if (auto* hello = std::get_if<Hello>(&up)) {
    said_session_ = hello->session;
    if (world_->bugs.open_requests_left_out) hello->open_requests.clear();
    if (world_->bugs.received_overstated && hello->received_through > 0) ++hello->received_through;
    if (world_->bugs.wants_break_left_out) hello->wants_break = false;
    if (world_->bugs.retained_left_out) hello->retained.clear();
    if (world_->bugs.answered_requests_listed) ListAnswered(hello);
  }
  if (!attached_ || stream_ == nullptr) return;
  CheckSilence(up);
  world_->coverage->Said(up);
  stream_->up.Send(LocalUp(std::move(up)));
}

void Life::ListAnswered(Hello* hello) const {
  for (const Submission::Many& together : submitted_) {
    for (const auto& submission : together) {
      const bool listed = std::any_of(hello->open_requests.begin(), hello->open_requests.end(),
                                      [&](const Request& request) { return request.name == submission->request.name; });
      if (!submission->done() && !listed) hello->open_requests.push_back(submission->request);
    }
  }
}

// I10: while it replays a worker says at most that it wants to break, that it has halted, and which items it has
// received and executed; a new session says it again.
void Life::CheckSilence(const WorkerUp& up) {
  const uint32_t phase = session_.replayer().phase();
  if (phase % 2 == 0 || silent_phase_ != phase || std::holds_alternative<Hello>(up)) {
    silent_phase_ = phase;
    breaks_ = acks_ = 0;
    return;
  }
  constexpr int kAcksMax = 2;
  // For its agent it says Leave where the generation ends before the replay does.
  const bool ended = session_.state() == worker::session::Session::State::kRemoved;
  if (std::holds_alternative<Announce>(up) || (std::holds_alternative<Leave>(up) && !ended)) {
    world_->checker.Fail("I10: a worker negotiates during a replay");
  } else if (std::holds_alternative<Break>(up) && ++breaks_ > 1) {
    world_->checker.Fail("I10: a worker breaks twice in one phase");
  } else if (std::holds_alternative<Ack>(up) && ++acks_ > kAcksMax) {
    world_->checker.Fail("I10: a worker goes on acknowledging during a replay");
  }
}

void Life::EndAll(worker::session::Effects* effects) {
  const worker::completion::Result end = session_.end();
  if (effects->removed) {
    for (worker::session::Work& work : executor_.Abort(end.text)) {
      for (auto& operation : work.operations) {
        if (operation != nullptr) effects->endings.push_back(std::move(operation));
      }
    }
    for (auto& operation : parked_) effects->endings.push_back(std::move(operation));
    parked_.clear();
  }
  if (!effects->endings.empty()) Answer(effects->endings, end, 0);
}

void Life::Answer(const Submission::Many& submissions, const worker::completion::Result& result, uint64_t item) {
  world_->checker.Answered(generation(), session_.self().rank, submissions, result, item);
  const bool together = world_->setting.shape != nullptr;
  const size_t told = told_.size();
  bool any = false;
  for (const auto& operation : submissions) {
    if (operation == nullptr) continue;
    if (operation->done()) {
      world_->checker.AnsweredTwice(generation(), session_.self().rank, Submission::Of(*operation));
      continue;
    }
    operation->Finish(result);
    world_->coverage->Answer(result.code);
    any = true;
    --unanswered_;
    if (together) {
      told_.push_back(operation.get());
    } else {
      Tell(operation);
    }
  }
  if (told_.size() > told && told == told_count_) TellTogether();
  if (any && result.code == worker::completion::Code::kPeerLost) CheckLost(result);
}

void Life::CheckLost(const worker::completion::Result& result) {
  if (MayEnd(result.text)) return;
  // One whose start timeout ended just then is no fault.
  if (world_->quiet_from <= world_->checker.opened(generation())) {
    world_->checker.Fail(absl::StrCat("after all faults: ", result.text));
  }
  if (world_->nobody_lost) world_->checker.Fail(absl::StrCat("a step is lost although nobody is: ", result.text));
}

// A rank left by its program, or gave up what nobody answered in time.
bool Life::MayEnd(const std::string& text) const {
  const auto program = world_->programs.find({generation().controller_incarnation, generation().number});
  if (program != world_->programs.end() && !program->second->shape().stays()) return true;
  // C3: what was begun can neither be withdrawn nor entered by all.
  if (absl::StrContains(text, "cannot be withdrawn") && program != world_->programs.end() &&
      program->second->shape().has_final() && !program->second->shape().enters_all()) {
    const bool crosswise = absl::StrContains(text, "diverged");
    world_->coverage->Hit(crosswise ? "generation ended by a final one that nobody enters"
                                    : "generation ended by a final one that cannot be entered");
    return true;
  }
  return absl::StrContains(text, ", or called shutdown") || absl::StrContains(text, "gave up init()") ||
         absl::StrContains(text, "initialised anew") || absl::StrContains(text, "exited with code 0") ||
         absl::StrContains(text, "ended while the agent");
}

void Life::Tell(const std::shared_ptr<worker::session::Operation>& submission) {
  process_->AfterUs(world_->random().Between(1, 60), [this, submission] {
    const worker::session::Operation* const told = submission.get();
    callbacks_.on_answered(&told, 1);
  });
}

void Life::TellTogether() {
  process_->AfterUs(world_->random().Between(1, 60), [this] {
    const size_t first = std::exchange(told_count_, told_.size());
    // The script may submit the next ones, and so forget these, at the end of it.
    callbacks_.on_answered(told_.data() + first, told_.size() - first);
  });
}

void Life::Observe() {
  if (world_->simulation.tracing() && session_.state() != state_) {
    world_->simulation.Trace(absl::StrCat("pid ", identity_.pid, " state ", static_cast<int>(state_), " -> ",
                                          static_cast<int>(session_.state()), " ", session_.end().text));
  }
  world_->coverage->Session(state_, session_.state());
  state_ = session_.state();
  world_->coverage->Mode(mode_, session_.replayer().mode());
  mode_ = session_.replayer().mode();
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
