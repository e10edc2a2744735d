#include "worker/runtime.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/auth.h"
#include "worker/os/cpu_budget.h"
#include "worker/os/log.h"
#include "worker/shm/shared_memory.h"

namespace farandole::worker {
namespace {

// Submissions that follow each other faster than this are announced together, by the control loop or by the first
// thread that waits; a lone one goes out from the thread that submits it.
constexpr int64_t kBurstGapNs = 30000;
constexpr size_t kBurstRequestsMax = 64;
constexpr int kAckMs = 1000;

session::Session::Identity MakeIdentity(const Config& config, Incarnation incarnation, const Runtime::Past& past) {
  session::Session::Identity identity;
  identity.incarnation = incarnation;
  identity.pid = getpid();
  identity.rank = config.rank;
  identity.size = config.size;
  identity.variables = config.job_variables;
  if (config.elastic()) {
    identity.elastic = {config.min_size, config.max_size, config.start_timeout_ms, past.generation, past.rank};
  }
  return identity;
}

// Between two looks at an outage, at least.
constexpr int64_t kOutageLookMs = 10;

std::string Seconds(uint32_t ms) { return absl::StrCat(ms / 1000.0, " s"); }

}  // namespace

Runtime::Runtime(Config config, const LinkFactory& link, execute::Executor::Factory communicators, Limits limits,
                 Past past)
    : Runtime(std::move(config), link, std::move(communicators), limits, past, Incarnation(RandomId())) {}

Runtime::Runtime(Config config, const LinkFactory& link, execute::Executor::Factory communicators, Limits limits,
                 Past past, Incarnation incarnation)
    : config_(std::move(config)),
      limits_(limits),
      link_(link(&loop_, incarnation)),
      executor_(std::move(communicators), this),
      session_(MakeIdentity(config_, incarnation, past)),
      outage_(config_.controller_timeout_ms) {}

Runtime::~Runtime() { Stop(); }

absl::Status Runtime::Start() {
  executor_.SetIdle(&idle_);
  absl::Status started = loop_.Start();
  if (started.ok()) started = executor_.Start();
  if (started.ok()) loop_.Post([this] { StartFromLoop(); });
  return started;
}

void Runtime::StartFromLoop() {
  const TimePoint now = loop_.Now();
  const uint32_t timeout_ms = config_.init_timeout_ms();
  if (config_.elastic()) {
    loop_.AddTimerFromLoop(now.PlusMs(config_.start_timeout_ms), [this] { AnswerTimeOver(); });
  }
  loop_.AddTimerFromLoop(now.PlusMs(timeout_ms), [this] { StartTimeOver(); });
  // Late enough to be true at the end, early enough for the answer.
  const uint32_t ask_ms = std::min<uint32_t>(1000, timeout_ms / 4);
  loop_.AddTimerFromLoop(now.PlusMs(timeout_ms - ask_ms), [this] {
    Step step(this);
    if (session_.state() == session::Session::State::kJoining) Apply(session_.AskAgain());
  });
  link_->StartFromLoop(this);
}

void Runtime::StartTimeOver() {
  Step step(this);
  if (session_.state() != session::Session::State::kJoining) return;
  const completion::Code code =
      link_state_.connected && session_.answered() ? completion::Code::kTimeout : completion::Code::kUnavailable;
  Apply(session_.GiveUp({code, WhatIsMissing()}));
}

void Runtime::AnswerTimeOver() {
  Step step(this);
  if (session_.state() != session::Session::State::kJoining || session_.answered()) return;
  Apply(session_.GiveUp({completion::Code::kUnavailable, WhatIsMissing()}));
}

std::string Runtime::WhatIsMissing() const {
  const bool waits_long = config_.elastic() && session_.answered();
  const uint32_t ms = waits_long ? config_.init_timeout_ms() : config_.start_timeout_ms;
  const std::string within =
      absl::StrCat(" within ", Seconds(ms), waits_long ? " (FARANDOLE_ELASTIC_TIMEOUT)" : " (FARANDOLE_START_TIMEOUT)");
  if (!link_state_.connected) {
    return absl::StrCat("no way to the controller", within, ": ",
                        link_state_.text.empty() ? "the agent has not said anything" : link_state_.text);
  }
  if (!session_.answered()) return absl::StrCat("the controller has not answered", within);
  if (config_.elastic() && session_.waiting() < session_.needed()) {
    return absl::StrCat("only ", session_.waiting(), " of the ", session_.needed(),
                        " processes that the job needs have called init()", within,
                        "; look at whether hosts are lost, and at the output of processes that ended");
  }
  if (config_.elastic()) {
    return absl::StrCat("the job has not taken this process in", within,
                        "; its members take others in where they commit their state, if there is room");
  }
  const std::vector<Rank>& missing = session_.missing_ranks();
  if (missing.empty()) {
    return absl::StrCat("the job did not start", within,
                        "; processes of its last run may still be shutting down, look for them on its hosts");
  }
  const std::string ranks =
      absl::StrJoin(missing, ", ", [](std::string* out, Rank rank) { absl::StrAppend(out, rank.value()); });
  return absl::StrCat(missing.size() == 1 ? "rank " : "ranks ", ranks, " of ", config_.size,
                      missing.size() == 1 ? " has" : " have", " not called init()", within,
                      "; look at their output, and whether all processes of the job were started");
}

completion::Result Runtime::WaitReady(int timeout_ms) {
  for (bool last = timeout_ms == 0;; last = true) {
    const uint32_t seen = changed_.Value();
    bool joined;
    {
      absl::MutexLock lock(&mutex_);
      joined = joined_;
      if (!joined && session_.state() != session::Session::State::kJoining) return session_.end();
    }
    if (joined) {
      PrepareMember();
      return {};
    }
    if (last || !changed_.WaitPast(seen, timeout_ms)) return {completion::Code::kPending, ""};
  }
}

View Runtime::view() const {
  absl::MutexLock lock(&mutex_);
  return session_.view();
}

MembershipNotice Runtime::membership_notice() const {
  absl::MutexLock lock(&mutex_);
  return session_.membership_notice();
}

Member Runtime::self() const {
  absl::MutexLock lock(&mutex_);
  return session_.self();
}

session::Place Runtime::PlaceIn(uint32_t process_set, Rank root) const {
  absl::MutexLock lock(&mutex_);
  session::Place place;
  const ProcessSet* set = session_.process_sets().Find(process_set);
  if (set == nullptr) return place;
  place.rank = session_.self().rank;
  place.size = static_cast<int>(set->ranks.size());
  const auto self = std::lower_bound(set->ranks.begin(), set->ranks.end(), place.rank);
  if (self != set->ranks.end() && *self == place.rank) place.position = static_cast<int>(self - set->ranks.begin());
  place.has_root = std::binary_search(set->ranks.begin(), set->ranks.end(), root);
  return place;
}

absl::optional<ProcessSet> Runtime::process_set(uint32_t id) const {
  absl::MutexLock lock(&mutex_);
  const ProcessSet* set = session_.process_sets().Find(id);
  if (set == nullptr) return absl::nullopt;
  return *set;
}

absl::StatusOr<char*> Runtime::AllocateShared(uint32_t process_set, int64_t bytes) {
  GenerationId generation;
  Rank rank;
  {
    absl::MutexLock lock(&mutex_);
    if (!joined_) return absl::UnavailableError("this process is not a member of a job");
    const ProcessSet* set = session_.process_sets().Find(process_set);
    const View& view = session_.view();
    if (set == nullptr) return absl::InvalidArgumentError(absl::StrCat("there is no process set ", process_set));
    if (config_.communicator != "auto" && config_.communicator != "shm") {
      return absl::UnavailableError(absl::StrCat("FARANDOLE_COMMUNICATOR is ", config_.communicator));
    }
    if (!config_.shared_tensors) return absl::UnavailableError("FARANDOLE_SHARED_TENSORS is 0");
    if (set->ranks.size() < 2) return absl::UnavailableError("the process set has one member");
    for (const Member& member : view.members) {
      if (member.host_number == session_.self().host_number) continue;
      if (!std::binary_search(set->ranks.begin(), set->ranks.end(), member.rank)) continue;
      return absl::UnavailableError(absl::StrCat(Describe(member), " is on another host"));
    }
    generation = view.generation;
    rank = session_.self().rank;
  }
  absl::StatusOr<char*> memory = shm::SharedMemory::Process().Allocate(bootstrap_.get(), generation, rank, bytes);
  const std::string what = absl::StrCat(bytes, " bytes of tensors of process set ", process_set);
  if (memory.ok()) {
    os::Log(os::LogLevel::kDebug, absl::StrCat(what, " lie in shared memory"));
  } else {
    os::Log(os::LogLevel::kWarning,
            absl::StrCat(what, " stay outside of shared memory, so that each allreduce copies them: ",
                         memory.status().message()));
  }
  return memory;
}

completion::Result Runtime::Submit(std::shared_ptr<session::Operation> operation) { return SubmitAll(&operation, 1); }

completion::Result Runtime::Submit(const std::vector<std::shared_ptr<session::Operation>>& operations) {
  return SubmitAll(operations.data(), operations.size());
}

completion::Result Runtime::SubmitAll(const std::shared_ptr<session::Operation>* operations, size_t count) {
  Step step(this);
  const TimePoint now = loop_.Now();
  for (size_t i = 0; i < count; ++i) operations[i]->submitted_ns = now.ns();
  session::Effects effects;
  completion::Result result = session_.Submit(operations, count, now, &effects);
  if (!result.ok()) return result;
  Apply(std::move(effects));
  if (!session_.has_unannounced()) return result;
  if (now.ns() - last_announce_.ns() > kBurstGapNs || session_.unannounced() >= kBurstRequestsMax) {
    last_announce_ = now;
    Apply(session_.Flush());
  } else if (!flush_posted_) {
    flush_posted_ = true;
    loop_.Post([this] {
      Step step(this);
      flush_posted_ = false;
      Apply(session_.Flush());
    });
  }
  return result;
}

void Runtime::Flush() {
  Step step(this);
  if (!session_.has_unannounced()) return;
  last_announce_ = loop_.Now();
  Apply(session_.Flush());
}

void Runtime::Wait(session::Operation* operation, int timeout_ms) {
  Flush();
  if (operation->done() || patience_.Look([operation] { return operation->done(); })) return;
  {
    absl::MutexLock lock(&mutex_);
    if (session_.Blocked(*operation, loop_.Now())) WatchPatience();
  }
  operation->Wait(timeout_ms);
}

void Runtime::WatchPatience() {
  const TimePoint deadline = session_.NextDeadline();
  if (patience_watched_ <= deadline) return;
  patience_watched_ = deadline;
  loop_.Post([this] { PatienceFromLoop(); });
}

void Runtime::PatienceFromLoop() {
  loop_.CancelTimerFromLoop(patience_timer_);
  patience_timer_ = 0;
  Step step(this);
  // Nobody has to post this function again meanwhile.
  patience_watched_ = TimePoint();
  Apply(session_.Tick(loop_.Now()));
  const TimePoint deadline = session_.NextDeadline();
  patience_watched_ = deadline;
  if (deadline == TimePoint::Infinite()) return;
  patience_timer_ = loop_.AddTimerFromLoop(deadline, [this] { PatienceFromLoop(); });
}

void Runtime::BeginLeave() {
  {
    Step step(this);
    Apply(session_.Flush());
    Apply(session_.BeginLeave(loop_.Now()));
  }
  changed_.Advance();
  loop_.Post([this] {
    loop_.AddTimerFromLoop(loop_.Now().PlusMs(limits_.leave_ms), [this] {
      Step step(this);
      Apply(session_.GiveUp(
          {completion::Code::kShutDown,
           absl::StrCat("shutdown(): the controller did not answer within ", Seconds(limits_.leave_ms))}));
    });
  });
}

bool Runtime::WaitLeft(int timeout_ms) {
  for (bool last = timeout_ms == 0;; last = true) {
    const uint32_t seen = changed_.Value();
    {
      absl::MutexLock lock(&mutex_);
      const session::Session::State state = session_.state();
      if (state == session::Session::State::kLeft || state == session::Session::State::kRemoved) return true;
    }
    if (last || !changed_.WaitPast(seen, timeout_ms)) return false;
  }
}

void Runtime::Stop() {
  {
    Step step(this);
    Apply(session_.GiveUp({completion::Code::kShutDown, "shutdown() was called"}));
  }
  absl::MutexLock stop_lock(&stop_mutex_);
  if (stopped_) return;
  stopped_ = true;
  link_->EndWaits("shutdown() was called");
  executor_.Stop();
  timeline_.Stop();
  loop_.Join();
  // Another thread of the script may be about to end some.
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(
      +[](int* endings) { return *endings == 0; }, &endings_));
}

void Runtime::OnLinkState(const LinkState& state) {
  Step step(this);
  link_state_ = state;
  if (state.connected) {
    outage_.Found();
    Apply(session_.LinkUp());
    return;
  }
  outage_.Lost(state.text, loop_.Now());
  if (!std::exchange(outage_watched_, true)) loop_.Post([this] { LookAtOutageFromLoop(); });
  session_.LinkDown();
  if (session_.state() != session::Session::State::kJoining) {
    LogAfterStep(os::LogLevel::kInfo, absl::StrCat("the way to the controller is interrupted: ", state.text));
  } else if (state.permanent) {
    Apply(session_.GiveUp({completion::Code::kRefused, state.text}));
  }
}

void Runtime::LookAtOutageFromLoop() {
  Step step(this);
  outage_watched_ = outage_.lost() && (session_.state() == session::Session::State::kJoining ||
                                       session_.state() == session::Session::State::kMember);
  if (!outage_watched_) return;
  const TimePoint now = loop_.Now();
  WorkerReport report;
  session_.Fill(&report, now);
  tally_.FillInFlight(&report, now);
  const int64_t left_ms = outage_.LeftMs(report, now);
  // Who has not joined yet has the bound of init().
  if (left_ms == 0 && session_.state() == session::Session::State::kMember) {
    return Apply(session_.GiveUp({completion::Code::kPeerLost, outage_.Sentence(report, now)}));
  }
  loop_.AddTimerFromLoop(now.PlusMs(std::max<int64_t>(left_ms, kOutageLookMs)), [this] { LookAtOutageFromLoop(); });
}

void Runtime::OnReceived(WorkerDown message) {
  const bool traces = std::holds_alternative<Trace>(message) || std::holds_alternative<TraceControl>(message);
  if (traces || std::holds_alternative<Welcome>(message)) timeline_.ReceivedFromLoop(message);
  if (traces) return;
  bool ack_due;
  {
    Step step(this);
    Apply(session_.Received(std::move(message), loop_.Now()));
    ack_due = session_.AckDue();
  }
  if (ack_due) ArmAckTimerFromLoop();
}

WorkerReport Runtime::Report() {
  absl::MutexLock lock(&mutex_);
  WorkerReport report;
  const TimePoint now = loop_.Now();
  session_.Fill(&report, now);
  tally_.Fill(&report, now);
  return report;
}

void Runtime::ArmAckTimerFromLoop() {
  if (ack_timer_armed_) return;
  ack_timer_armed_ = true;
  loop_.AddTimerFromLoop(loop_.Now().PlusMs(kAckMs), [this] { AckTimeOver(); });
}

void Runtime::AckTimeOver() {
  ack_timer_armed_ = false;
  bool again;
  {
    Step step(this);
    Apply(session_.SendAck());
    again = session_.executing();
  }
  if (again) ArmAckTimerFromLoop();
}

void Runtime::OnDone(session::Work work) {
  timeline_.Executed(work);
  {
    absl::MutexLock lock(&mutex_);
    // Before the script is told, so that it can use the names again and its next announcement says what is done.
    session_.Completed(work);
    tally_.Done(work, loop_.Now(), true);
  }
  for (const auto& operation : work.operations) {
    if (operation != nullptr) operation->Finish(work.error);
  }
  {
    Step step(this);
    Apply(session_.AfterCompleted(loop_.Now()));
  }
  if (work.kind == session::Work::Kind::kLeaveDone) changed_.Advance();
}

void Runtime::OnWithdrawn(session::Work work) {
  Step step(this);
  tally_.Done(work, loop_.Now(), false);
  Apply(session_.Withdrawn(std::move(work), loop_.Now()));
}

void Runtime::OnBroken(session::Work work, const absl::Status& reason, Rank suspect) {
  // Zeros of a rank that has joined are nobody's.
  work.operations.erase(std::remove(work.operations.begin(), work.operations.end(), nullptr), work.operations.end());
  Step step(this);
  std::string text = absl::StrCat("a collective that this rank has no tensor in failed: ", reason.message());
  if (!work.operations.empty()) {
    const Request& first = work.operations[0]->request;
    text = absl::StrCat(Name(first.signature.op), " of \"", first.name, "\"");
    if (work.operations.size() > 1) absl::StrAppend(&text, " and ", work.operations.size() - 1, " more");
    absl::StrAppend(&text, " failed: ", reason.message());
  }
  Apply(session_.DataPlaneFailed(text, suspect));
  if (session_.state() != session::Session::State::kBroken) return End(std::move(work.operations));
  LogAfterStep(os::LogLevel::kInfo, text);
  for (auto& operation : work.operations) parked_.push_back(std::move(operation));
  loop_.Post([this, text] {
    loop_.AddTimerFromLoop(loop_.Now().PlusMs(limits_.verdict_ms), [this, text] {
      Step step(this);
      Apply(session_.GiveUp({completion::Code::kPeerLost, text}));
    });
  });
}

void Runtime::Apply(session::Effects effects) {
  for (const WorkerUp& up : effects.send) link_->Send(up);
  // Before the executor gets something to do.
  idle_.SetSilent(!session_.replayer().negotiates());
  tally_.Sent(effects.send.size());
  if (effects.joined) Joined();
  for (session::Work& work : effects.work) {
    timeline_.Dispatched(&work);
    tally_.Given(work, loop_.Now());
    executor_.Push(std::move(work));
    wake_executor_ = true;
  }
  for (const session::TakeBack& back : effects.withdraw) executor_.Withdraw(back.process_set, back.instance);
  if (!effects.notice.empty()) LogAfterStep(os::LogLevel::kWarning, std::move(effects.notice));
  if (effects.removed || !effects.endings.empty()) EndAll(std::move(effects));
  WatchPatience();
}

void Runtime::EndAll(session::Effects effects) {
  if (effects.removed) {
    const std::string& reason = session_.end().text;
    for (session::Work& work : executor_.Abort(reason)) {
      for (auto& operation : work.operations) {
        if (operation != nullptr) effects.endings.push_back(std::move(operation));
      }
    }
    for (auto& operation : parked_) effects.endings.push_back(std::move(operation));
    parked_.clear();
    tally_.Ended();
    link_->EndWaits(reason);
  }
  End(std::move(effects.endings));
}

void Runtime::End(std::vector<std::shared_ptr<session::Operation>> operations) {
  ++endings_;
  after_step_.push_back([this, operations = std::move(operations), end = session_.end()] {
    for (const auto& operation : operations) operation->Finish(end);
    {
      absl::MutexLock lock(&mutex_);
      --endings_;
    }
    changed_.Advance();
  });
}

void Runtime::LogAfterStep(os::LogLevel level, std::string text) {
  if (!os::LogEnabled(level)) return;
  after_step_.push_back([level, text = std::move(text)] { os::Log(level, text); });
}

void Runtime::EndStep() {
  const bool wake = std::exchange(wake_executor_, false);
  std::vector<std::function<void()>> after;
  after.swap(after_step_);
  mutex_.Unlock();
  // Not before the session is free: an executor that is woken on this very CPU takes it at once, and would wait for the
  // session.
  if (wake) executor_.Wake();
  for (auto& left : after) loop_.InLoop() ? loop_.Afterwards(std::move(left)) : left();
}

void Runtime::Joined() {
  const View& view = session_.view();
  collective::Group group;
  group.job = config_.job;
  group.generation = view.generation;
  group.members = view.members;
  group.position = session_.position();
  group.data_key = view.data_key;
  group.setup_timeout_ms = config_.start_timeout_ms;
  group.op_timeout_ms = config_.op_timeout_ms;
  bootstrap_ = std::make_unique<link::LinkBootstrap>(link_.get(), view.generation);
  timeline_.Joined(view.generation, session_.self().rank, static_cast<int>(view.members.size()));
  executor_.SetGroup(std::move(group), bootstrap_.get());
  os::SetLogRank(session_.self().rank.value());
  joined_ = true;
  after_step_.push_back([this] { changed_.Advance(); });
}

void Runtime::PrepareMember() {
  absl::MutexLock prepare(&prepare_mutex_);
  if (std::exchange(prepared_, true)) return;
  patience_.Enable(os::HasCpuForEach(self().local_size));
  if (config_.timeline.empty()) return;
  const absl::Status started = timeline_.Start(config_.timeline, config_.timeline_mark_cycles);
  if (!started.ok()) os::Log(os::LogLevel::kError, absl::StrCat(started.message(), " (HOROVOD_TIMELINE)"));
}

}  // namespace farandole::worker
