#include "agent/core/agent.h"

#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "agent/core/liveness.h"
#include "agent/processes/process_end.h"
#include "proto/codec/codec.h"
#include "proto/rules/version_check.h"
#include "proto/version.h"

namespace farandole::agent::core {
namespace {

// Reports of ends that are kept for a controller that comes back; older ones concern generations long over.
constexpr size_t kEndsMax = 1024;
// How long announcements wait for those of the other workers of this host; then the controller learns who is late.
constexpr int64_t kAnnouncementsMs = 1;

// Outages of the link that are shorter are nobody's business: a controller that is started again is back by then.
constexpr int64_t kOutageMs = 1000;
// Pods start in any order, and names of DNS may not be there yet.
constexpr int64_t kFirstOutageMs = 5000;
// Between two reasons of one outage.
constexpr int64_t kOutageAgainMs = 10000;
// Longer than a loaded machine keeps a process waiting.
constexpr int64_t kStandstillMs = 5000;
constexpr char kLeftCause[] = "has left the job";
// In the launcher's memory, before the pid.
constexpr char kRetirePrefix[] = "retire ";
// Processes of one host that a launcher has retired and that have not ended.
constexpr size_t kRetiredMax = 4096;

std::string NameOf(const Worker& worker) {
  if (!worker.rank.known()) return absl::StrCat("the worker with pid ", worker.pid);
  return absl::StrCat("rank ", worker.rank.value(), " (pid ", worker.pid, ")");
}

}  // namespace

Agent::Agent(EventLoop* loop, AgentConfig config, launcher::LauncherStore* store,
             std::function<void(const std::string&)> log)
    : loop_(loop),
      config_(std::move(config)),
      store_(store),
      log_(std::move(log)),
      segments_(config_.segment_bytes_max, store),
      link_(loop, &outstanding_, config_.link,
            {[this](const LinkState& state) { LinkChanged(state); },
             [this](const ToWorkers& message) { FromController(message); }, [this] { return workers_.TakeReports(); }}),
      keys_(loop, &outstanding_, &link_),
      server_(loop, {[this](const Connection& connection, const LocalUp& message) { FromLocal(connection, message); },
                     [this](const Connection& connection, const absl::Status& status) {
                       ConnectionClosed(connection, status);
                     }}),
      watch_(loop, [this](const processes::ProcessEnd& end) { ProcessEnded(end); }) {}

absl::Status Agent::ListenFromLoop() { return server_.ListenFromLoop(config_.socket_name); }

void Agent::RestoreFromLoop(std::vector<launcher::KeptEntry>* kept) {
  for (launcher::KeptEntry& entry : *kept) {
    if (segments_.Restore(&entry)) continue;
    absl::string_view retired = entry.key;
    pid_t pid;
    if (absl::ConsumePrefix(&retired, kRetirePrefix) && absl::ConsumeSuffix(&retired, ".") &&
        absl::SimpleAtoi(retired, &pid)) {
      retired_.insert(pid);
      continue;
    }
    const absl::StatusOr<processes::WorkerMemory> memory = processes::ParseMemory(entry.key, entry.value);
    if (!memory.ok()) continue;
    const Worker& worker = workers_.Restore(*memory, loop_->Now());
    if (memory->left) KeepEnd(WorkerEnded{memory->incarnation, memory->pid, kLeftCause, true, true});
    if (memory->ended) {
      KeepEnd(WorkerEnded{memory->incarnation, memory->pid, memory->cause, false, memory->lives});
    } else if (watch_.WatchFromLoop(memory->pid).ok()) {
      continue;
    } else if (!memory->left) {
      ReportEnd(worker, processes::UnknownEnd(memory->pid).cause);
    } else if (memory->elastic) {
      ReportEndOfElastic(memory->incarnation, 0, processes::UnknownEnd(memory->pid), true);
    }
    Forget(memory->incarnation);
  }
}

void Agent::ConnectFromLoop() {
  link_.StartFromLoop();
  health_due_ = loop_->Now();
  CheckHealth();
}

void Agent::StopFromLoop() {
  loop_->CancelTimerFromLoop(health_timer_);
  loop_->CancelTimerFromLoop(outage_timer_);
  for (Worker* worker : workers_.All()) keys_.CancelFromLoop(worker->incarnation.value());
  link_.StopFromLoop();
}

void Agent::LinkChanged(const LinkState& state) {
  LogLink(state);
  // What is kept belongs to sessions that end here.
  announcements_.Take();
  announcements_.Forget();
  workers_.ForgetReported();
  const std::string bytes = Encode(LocalDown(state));
  for (Worker* worker : workers_.All()) {
    worker->said_hello = false;
    if (worker->connection != nullptr) worker->connection->SendBytesFromLoop(bytes);
  }
  if (!state.connected) return;
  for (const WorkerEnded& end : ends_) link_.SendFromLoop(AgentUp(end));
  for (Worker* worker : workers_.All()) {
    if (IsRetired(*worker)) link_.SendFromLoop(AgentUp(Retire{worker->incarnation}));
    if (!worker->responsive) link_.SendFromLoop(AgentUp(WorkerHealth{worker->incarnation, false, worker->cause}));
  }
}

void Agent::LogLink(const LinkState& state) {
  if (state.connected || state.permanent) {
    loop_->CancelTimerFromLoop(outage_timer_);
    outage_timer_ = 0;
  }
  if (state.connected) {
    if (!outage_text_.empty()) {
      log_(absl::StrCat("connected to the controller at ", config_.link.channel.address, link_was_up_ ? " again" : ""));
    }
    outage_text_.clear();
    link_was_up_ = true;
  } else if (state.permanent) {
    // Also after an outage that was told: this is why it gives up.
    outage_text_ = state.text;
    log_(outage_text_);
  } else if (outage_timer_ == 0 && state.text != outage_text_) {
    const int64_t wait_ms = !outage_text_.empty() ? kOutageAgainMs : link_was_up_ ? kOutageMs : kFirstOutageMs;
    outage_timer_ = loop_->AddTimerFromLoop(loop_->Now().PlusMs(wait_ms), [this] { LogOutage(); });
  }
}

void Agent::LogOutage() {
  outage_timer_ = 0;
  if (link_.state().text == outage_text_) return;
  outage_text_ = link_.state().text;
  log_(outage_text_);
}

void Agent::FromController(const ToWorkers& message) {
  announcements_.NoteDown(message.message);
  const std::string bytes = Encode(LocalDown(message.message));
  for (Incarnation incarnation : message.worker_incarnations) {
    Worker* worker = workers_.Find(incarnation);
    if (worker == nullptr) continue;
    const bool had_left = worker->left;
    if (workers_.NoteDown(worker, message.message)) Remember(*worker);
    if (worker->left && !had_left && told_to_end_) left_when_told_.insert(worker->pid);
    if (worker->left && !had_left) KeepEnd(WorkerEnded{incarnation, worker->pid, kLeftCause, true, true});
    if (worker->connection != nullptr) worker->connection->SendBytesFromLoop(bytes);
  }
}

void Agent::FromLocal(const Connection& connection, const LocalUp& message) {
  if (const auto* attach = std::get_if<Attach>(&message)) return Attaches(connection, *attach);
  Worker* worker = workers_.Find(connection->incarnation());
  if (worker == nullptr || worker->connection != connection) return Refuse(connection, "Attach has to come first");
  worker->heard = loop_->Now();
  if (const auto* up = std::get_if<WorkerUp>(&message)) {
    FromWorkerUp(connection, worker, *up);
  } else if (const auto* heartbeat = std::get_if<Heartbeat>(&message)) {
    worker->report = heartbeat->report;
    worker->report.worker_incarnation = worker->incarnation;
  } else if (const auto* request = std::get_if<SegmentRequest>(&message)) {
    AsksForSegment(connection, *request);
  } else if (const auto* put = std::get_if<LocalPut>(&message)) {
    keys_.PutFromLoop(worker->incarnation.value(), *put,
                      [connection](const KeyReply& reply) { connection->SendFromLoop(LocalDown(reply)); });
  } else if (const auto* get = std::get_if<LocalGet>(&message)) {
    keys_.GetFromLoop(worker->incarnation.value(), *get,
                      [connection](const KeyReply& reply) { connection->SendFromLoop(LocalDown(reply)); });
  }
}

void Agent::Attaches(const Connection& connection, const Attach& attach) {
  const pid_t pid = connection->peer().pid;
  if (connection->incarnation() != Incarnation()) return Refuse(connection, "a second Attach on one connection");
  if (attach.worker_incarnation == Incarnation()) return Refuse(connection, "Attach without an incarnation");
  const absl::Status version = CheckVersion("this worker", attach.version, "the agent of its host");
  if (!version.ok()) return Refuse(connection, std::string(version.message()));
  Worker* known = workers_.Find(attach.worker_incarnation);
  if (known != nullptr && known->pid != pid) {
    return Refuse(connection, absl::StrCat("another process, pid ", known->pid, ", is this worker"));
  }
  const absl::Status watched = watch_.WatchFromLoop(pid);
  if (!watched.ok()) return Refuse(connection, std::string(watched.message()));
  for (Worker* old : workers_.OfProcess(pid)) {
    const Connection replaced = std::move(old->connection);
    old->connection = nullptr;
    if (replaced != nullptr) replaced->CloseFromLoop();
    if (old == known) continue;
    // A process is one worker at a time.
    if (!old->left) ReportEnd(*old, "was initialised anew in the same process", true);
    Forget(old->incarnation);
  }
  departed_.erase(pid);
  Worker& worker = workers_.Add(attach.worker_incarnation, pid);
  worker.group = getpgid(pid);
  // What this process's group did before was not all.
  ReportEndInGroup(worker.group, false);
  worker.connection = connection;
  worker.said_hello = false;
  worker.heard = loop_->Now();
  connection->AttachFromLoop(attach.worker_incarnation);
  connection->SendFromLoop(
      LocalDown(Attached{config_.link.hello.agent_id, config_.link.hello.host, config_.heartbeat_interval_ms}));
  connection->SendFromLoop(LocalDown(link_.state()));
  // Before its Hello.
  if (IsRetired(worker)) link_.SendFromLoop(AgentUp(Retire{worker.incarnation}));
}

void Agent::RetireFromLoop(pid_t pid) {
  if (retired_.size() >= kRetiredMax || !retired_.insert(pid).second) return;
  store_->PutFromLoop(absl::StrCat(kRetirePrefix, pid, "."), "");
  for (Worker* worker : workers_.All()) {
    if (worker->pid == pid || worker->group == pid) link_.SendFromLoop(AgentUp(Retire{worker->incarnation}));
  }
}

void Agent::FromWorkerUp(const Connection& connection, Worker* worker, const WorkerUp& message) {
  if (const auto* hello = std::get_if<Hello>(&message)) {
    if (hello->worker_incarnation != worker->incarnation || hello->pid != worker->pid) {
      return Refuse(connection, absl::StrCat("Hello names pid ", hello->pid, ", the kernel ", worker->pid,
                                             "; did a forked child use its parent's connection?"));
    }
  }
  if (workers_.NoteUp(worker, message, loop_->Now())) Remember(*worker);
  // Without Hello on this life of the link the controller does not know the session; the worker will say it.
  if (!worker->said_hello) return;
  const size_t active = workers_.CountActive();
  if (const auto* announce = std::get_if<Announce>(&message)) {
    return Keeps(announcements_.Add(active, worker->incarnation, *announce));
  }
  if (const auto* halted = std::get_if<Halted>(&message)) {
    return Keeps(announcements_.Add(active, worker->incarnation, *halted));
  }
  FlushAnnouncements();
  if (std::holds_alternative<Hello>(message)) announcements_.Forget();
  link_.SendFromLoop(AgentUp(FromWorker{worker->incarnation, message}));
}

void Agent::Keeps(bool complete) {
  if (complete) return FlushAnnouncements();
  if (announcements_timer_ != 0) return;
  announcements_timer_ =
      loop_->AddTimerFromLoop(loop_->Now().PlusMs(kAnnouncementsMs), [this] { FlushAnnouncements(); });
}

void Agent::FlushAnnouncements() {
  loop_->CancelTimerFromLoop(announcements_timer_);
  announcements_timer_ = 0;
  std::vector<FromWorker> kept = announcements_.Take();
  if (kept.size() == 1) {
    link_.SendFromLoop(AgentUp(std::move(kept[0])));
  } else if (!kept.empty()) {
    link_.SendFromLoop(AgentUp(FromWorkers{std::move(kept)}));
  }
}

void Agent::AsksForSegment(const Connection& connection, const SegmentRequest& request) {
  absl::StatusOr<UniqueFd> fd = segments_.Get(request.generation, request.key, request.size_bytes);
  if (fd.ok()) return connection->SendFromLoop(LocalDown(SegmentReply{request.request_id, ""}), std::move(*fd));
  connection->SendFromLoop(LocalDown(SegmentReply{request.request_id, std::string(fd.status().message())}));
}

void Agent::ConnectionClosed(const Connection& connection, const absl::Status& status) {
  Worker* worker = workers_.Find(connection->incarnation());
  if (worker == nullptr || worker->connection != connection) return;
  if (absl::IsInvalidArgument(status) || absl::IsResourceExhausted(status)) {
    log_(absl::StrCat(NameOf(*worker), " was disconnected: ", status.message()));
  }
  keys_.CancelFromLoop(worker->incarnation.value());
  worker->connection = nullptr;
  if (!worker->left) return;  // it may come back; if its process ends, that is noticed
  const pid_t pid = worker->pid;
  if (worker->elastic) departed_[pid] = {worker->incarnation, worker->group};
  Forget(worker->incarnation);
  if (workers_.OfProcess(pid).empty() && departed_.count(pid) == 0) watch_.ForgetFromLoop(pid);
}

void Agent::ProcessEnded(const processes::ProcessEnd& end) {
  if (started_.count(end.pid) > 0) EndedInGroup(end.pid);
  Ending ending;
  for (Worker* worker : workers_.OfProcess(end.pid)) {
    const Incarnation incarnation = worker->incarnation;
    // A copy: what the connection still holds may change the worker's state and drop it.
    const Connection connection = worker->connection;
    if (connection != nullptr) connection->DrainFromLoop();
    worker = workers_.Find(incarnation);
    if (worker == nullptr) continue;
    worker->connection = nullptr;
    if (connection != nullptr) connection->CloseFromLoop();
    // First, so that nobody joins a finished job because a member is gone.
    if (MayHaveFinished(*worker, end.code, told_to_end_)) {
      ending.finished |= ReportEndOfElastic(incarnation, worker->group, end, worker->left);
    }
    if (!worker->left) ReportEnd(*worker, end.cause);
    const bool was_member = worker->said_hello || worker->rank.known();
    if (was_member && !worker->left && !worker->leaving && !worker->removed) ending.without_leaving = true;
    Forget(incarnation);
  }
  const auto departed = departed_.find(end.pid);
  if (departed != departed_.end()) {
    ending.finished |= ReportEndOfElastic(departed->second.incarnation, departed->second.group, end, true);
    departed_.erase(departed);
  }
  ending.finished |= ReportEndInGroup(end.pid, end.code == 0);
  started_.erase(end.pid);
  left_when_told_.erase(end.pid);
  if (retired_.erase(end.pid) > 0) store_->DropFromLoop(absl::StrCat(kRetirePrefix, end.pid, "."));
  if (on_process_end_ != nullptr) on_process_end_(end, ending);
}

void Agent::EndedInGroup(pid_t group) {
  std::set<pid_t> ended;
  for (const Worker* worker : workers_.All()) {
    if (worker->group == group) ended.insert(worker->pid);
  }
  for (const auto& [pid, departed] : departed_) {
    if (departed.group == group) ended.insert(pid);
  }
  ended.erase(group);
  for (const pid_t pid : ended) {
    const char state = ProcessState(pid);
    if (state != 0 && state != 'Z') continue;
    watch_.ForgetFromLoop(pid);
    ProcessEnded(processes::ReadEnd(pid));
  }
}

void Agent::ReportEnd(const Worker& worker, const std::string& cause, bool lives) {
  processes::WorkerMemory memory = workers_.MemoryOf(worker);
  memory.ended = true;
  memory.cause = cause;
  memory.lives = lives;
  store_->PutFromLoop(processes::MemoryKey(memory.incarnation), processes::MemoryLine(memory));
  Report(WorkerEnded{worker.incarnation, worker.pid, cause, false, lives});
}

bool Agent::ReportEndOfElastic(Incarnation incarnation, pid_t group, const processes::ProcessEnd& end, bool left) {
  WorkerEnded ended{incarnation, end.pid, end.cause, left};
  const bool told = left_when_told_.count(end.pid) > 0;
  if (started_.count(group) > 0 && group != end.pid && !told) {
    // Whether all is done, the end of what has started it tells; in one message, so that nobody joins in between.
    ReportEndInGroup(group, false);
    ended_in_group_[group] = std::move(ended);
    return false;
  }
  ended.finished = end.code == 0 && started_.count(end.pid) > 0 && !told;
  Report(ended);
  return ended.finished;
}

bool Agent::ReportEndInGroup(pid_t group, bool finished) {
  const auto it = ended_in_group_.find(group);
  if (it == ended_in_group_.end()) return false;
  it->second.finished = finished;
  Report(it->second);
  ended_in_group_.erase(it);
  return finished;
}

void Agent::RankEndedFromLoop(Rank rank, const processes::ProcessEnd& end) {
  Report(WorkerEnded{Incarnation(), end.pid, end.cause, false, false, rank});
}

void Agent::Report(WorkerEnded end) {
  link_.SendFromLoop(AgentUp(end));
  KeepEnd(std::move(end));
}

void Agent::KeepEnd(WorkerEnded end) {
  ends_.push_back(std::move(end));
  if (ends_.size() <= kEndsMax) return;
  const Incarnation oldest = ends_.front().worker_incarnation;
  if (oldest != Incarnation()) store_->DropFromLoop(processes::MemoryKey(oldest));
  ends_.pop_front();
}

void Agent::Remember(const Worker& worker) {
  store_->PutFromLoop(processes::MemoryKey(worker.incarnation), processes::MemoryLine(workers_.MemoryOf(worker)));
}

void Agent::Forget(Incarnation incarnation) {
  keys_.CancelFromLoop(incarnation.value());
  workers_.Erase(incarnation);
  if (workers_.empty()) segments_.Clear();
}

int64_t Agent::StoodStillMs() const {
  const TimePoint now = loop_->Now();
  const int64_t late_ms = health_timer_ == 0 ? 0 : now.MsSince(health_due_);
  if (late_ms >= kStandstillMs) return late_ms;
  return now.MsSince(stood_still_until_) < kStandstillMs ? stood_still_ms_ : 0;
}

void Agent::CheckHealth() {
  const TimePoint now = loop_->Now();
  // This process did not run for so long itself: that is not their silence.
  const int64_t late_ms = now.MsSince(health_due_);
  if (late_ms >= kStandstillMs) {
    stood_still_ms_ = late_ms;
    stood_still_until_ = now;
  }
  for (Worker* worker : workers_.All()) {
    worker->heard = std::min(worker->heard.PlusMs(late_ms), now);
    const Liveness liveness = Judge(ProcessState(worker->pid), worker->heard, now, config_.silence_ms);
    if (liveness.responsive == worker->responsive) continue;
    worker->responsive = liveness.responsive;
    worker->cause = liveness.cause;
    log_(liveness.responsive ? absl::StrCat(NameOf(*worker), " answers again")
                             : absl::StrCat(NameOf(*worker), " is unresponsive: it ", liveness.cause));
    link_.SendFromLoop(AgentUp(WorkerHealth{worker->incarnation, liveness.responsive, liveness.cause}));
  }
  health_due_ = now.PlusMs(config_.health_interval_ms);
  health_timer_ = loop_->AddTimerFromLoop(health_due_, [this] { CheckHealth(); });
}

void Agent::Refuse(const Connection& connection, const std::string& reason) {
  connection->SendFromLoop(LocalDown(Refused{reason}));
  connection->CloseFromLoop();
}

}  // namespace farandole::agent::core
