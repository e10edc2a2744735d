#include "tests/sim/agent.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/version.h"
#include "tests/sim/controller.h"

namespace farandole::sim {
namespace {

// As in agent/core/agent.cc and agent/link/controller_link.cc.
constexpr int64_t kAnnouncementsMs = 1;
constexpr int64_t kRetryFirstMs = 50;
constexpr int64_t kRetryMaxMs = 250;
constexpr int64_t kWelcomeMs = 5000;
constexpr int64_t kLeaseMs = 1000;
constexpr int64_t kHealthMs = 1000;
constexpr char kLeftCause[] = "has left the job";
constexpr char kEndedMeanwhile[] = "ended while the agent of its host was started again";

}  // namespace

Agent::Agent(World* world, int host, int life, std::string run)
    : world_(world),
      process_(world->NewProcess()),
      host_(host),
      host_name_(absl::StrCat("h", host)),
      id_(absl::StrCat("agent-", host, ".", life)),
      run_(std::move(run)) {}

void Agent::Start() {
  retry_ms_ = kRetryFirstMs;
  Restore();
  Connect();
  CheckHealth();
}

void Agent::Restore() {
  if (!IsPod()) retired_ = world_->retired[host_];
  const std::vector<agent::processes::WorkerMemory> kept = world_->stores[host_];
  for (const agent::processes::WorkerMemory& memory : kept) {
    const agent::core::Worker& worker = workers_.Restore(memory, world_->simulation.now());
    if (memory.left) KeepEnd(WorkerEnded{memory.incarnation, memory.pid, kLeftCause, true, true});
    const Process* const process = world_->processes.at(memory.pid);
    if (memory.ended) {
      KeepEnd(WorkerEnded{memory.incarnation, memory.pid, memory.cause, false, memory.lives});
    } else if (process->alive()) {
      watched_[memory.pid] = process;
      world_->coverage->Hit("worker adopted");
      continue;
    } else if (!memory.left) {
      ReportEnd(worker, kEndedMeanwhile);
    } else if (memory.elastic) {
      ReportEndOfElastic(memory.incarnation, {memory.pid, -1, kEndedMeanwhile}, true);
    }
    Forget(memory.incarnation);
  }
}

void Agent::Put(const agent::processes::WorkerMemory& memory) {
  std::vector<agent::processes::WorkerMemory>& store = world_->stores[host_];
  const auto at = std::find_if(store.begin(), store.end(), [&](const agent::processes::WorkerMemory& m) {
    return m.incarnation == memory.incarnation;
  });
  if (at == store.end()) {
    store.push_back(memory);
  } else {
    *at = memory;
  }
}

void Agent::KeepEnd(WorkerEnded end) { ends_.push_back(std::move(end)); }

void Agent::Connect() {
  stream_ = world_->controller->Accept(process_);
  ControllerStream* const stream = stream_;
  stream->down.on_message = [this, stream](FromController from) {
    if (stream == stream_) Received(std::move(from));
  };
  stream->down.on_closed = [this, stream] {
    if (stream == stream_) Lost();
  };
  const AgentUp hello = AgentHello{id_, host_name_, kVersion, controller_incarnation_, run_, IsPod()};
  world_->coverage->Said(hello);
  stream->up.Send(hello);
  process_->At(world_->simulation.now().PlusMs(kWelcomeMs), [this, stream] {
    if (stream != stream_ || connected_) return;
    stream->CloseFromBelow();
    Lost();
  });
}

void Agent::Received(FromController from) {
  if (const auto* welcome = std::get_if<AgentWelcome>(&from.message)) {
    if (connected_) return;
    if (welcome->controller_incarnation < controller_incarnation_) {
      stream_->CloseFromBelow();
      return Lost();
    }
    controller_incarnation_ = welcome->controller_incarnation;
    retry_ms_ = kRetryFirstMs;
    connected_ = true;
    LinkChanged();
    if (!lease_running_) SayLease();
    return;
  }
  const auto* down = std::get_if<ToWorkers>(&from.message);
  if (down == nullptr || !connected_) return;
  announcements_.NoteDown(down->message);
  for (size_t i = 0; i < down->worker_incarnations.size(); ++i) {
    agent::core::Worker* worker = workers_.Find(down->worker_incarnations[i]);
    if (worker == nullptr) continue;
    const bool had_left = worker->left;
    if (workers_.NoteDown(worker, down->message)) Put(workers_.MemoryOf(*worker));
    if (worker->left && !had_left) {
      if (told_to_end_) left_when_told_.insert(worker->pid);
      KeepEnd(WorkerEnded{worker->incarnation, worker->pid, kLeftCause, true, true});
    }
    Connection* connection = ConnectionOf(worker->incarnation);
    if (connection != nullptr) ToLocal(connection, down->message, from.origins[i]);
  }
}

void Agent::Lost() {
  stream_ = nullptr;
  const bool was_connected = std::exchange(connected_, false);
  if (was_connected) LinkChanged();
  process_->At(world_->simulation.now().PlusMs(retry_ms_), [this] { Connect(); });
  retry_ms_ = std::min(2 * retry_ms_, kRetryMaxMs);
}

void Agent::LinkChanged() {
  announcements_.Take();
  announcements_.Forget();
  workers_.ForgetReported();
  for (agent::core::Worker* worker : workers_.All()) {
    worker->said_hello = false;
    Connection* connection = ConnectionOf(worker->incarnation);
    if (connection != nullptr) ToLocal(connection, LinkState{connected_, connected_ ? "" : "lost", false}, {});
  }
  if (!connected_) return;
  if (!world_->bugs.end_not_reported_again) {
    for (const WorkerEnded& end : ends_) Say(end);
  }
  for (agent::core::Worker* worker : workers_.All()) {
    if (!world_->bugs.retire_not_said_again) SayRetire(*worker);
    if (!worker->responsive) Say(WorkerHealth{worker->incarnation, false, worker->cause});
  }
}

void Agent::SayLease() {
  lease_running_ = true;
  const bool busy = said_something_ && world_->bugs.lease_not_renewed_by_traffic;
  said_something_ = false;
  if (!world_->bugs.lease_not_said && !busy && connected_) Say(Lease{workers_.TakeReports()});
  process_->At(world_->simulation.now().PlusMs(kLeaseMs), [this] { SayLease(); });
}

void Agent::Say(AgentUp message) {
  if (!connected_ || stream_ == nullptr) return;
  world_->coverage->Said(message);
  said_something_ = said_something_ || !std::holds_alternative<Lease>(message);
  stream_->up.Send(std::move(message));
}

LocalStream* Agent::Accept(Process* worker) {
  auto stream = std::make_shared<LocalStream>(&world_->simulation, worker, process_, world_->setting.local);
  connections_.push_back(Connection{world_->simulation.Keep(stream), worker, Incarnation()});
  Connection* const connection = &connections_.back();
  stream->up.on_message = [this, connection](LocalUp message) { FromLocal(connection, std::move(message)); };
  stream->up.on_closed = [this, connection] { ConnectionClosed(connection); };
  if (!process_->alive()) stream->CloseFromAbove();
  return connection->stream;
}

Agent::Connection* Agent::ConnectionOf(Incarnation incarnation) {
  const auto it = by_worker_.find(incarnation);
  return it == by_worker_.end() ? nullptr : it->second;
}

void Agent::ToLocal(Connection* connection, LocalDown message, Origin origin) {
  FromAgent from{std::move(message), origin};
  if (world_->bugs.agent_reorders) {
    const auto held = held_back_.find(connection->incarnation);
    if (held != held_back_.end()) {
      connection->stream->down.Send(std::move(from));
      connection->stream->down.Send(std::move(held->second));
      held_back_.erase(held);
      return;
    }
    const auto* down = std::get_if<WorkerDown>(&from.message);
    if (down != nullptr && std::holds_alternative<Item>(*down) && world_->random().Percent(2)) {
      held_back_.emplace(connection->incarnation, std::move(from));
      return;
    }
  }
  connection->stream->down.Send(std::move(from));
}

void Agent::FromLocal(Connection* connection, LocalUp message) {
  if (const auto* attach = std::get_if<Attach>(&message)) return Attaches(connection, *attach);
  agent::core::Worker* worker = workers_.Find(connection->incarnation);
  if (worker == nullptr || ConnectionOf(worker->incarnation) != connection) {
    ToLocal(connection, Refused{"Attach has to come first"}, {});
    return connection->stream->CloseFromAbove();
  }
  worker->heard = world_->simulation.now();
  if (const auto* up = std::get_if<WorkerUp>(&message)) FromWorkerUp(worker, *up);
}

void Agent::Attaches(Connection* connection, const Attach& attach) {
  const pid_t pid = static_cast<pid_t>(connection->worker->pid);
  agent::core::Worker* known = workers_.Find(attach.worker_incarnation);
  if (!connection->worker->alive()) return connection->stream->CloseFromAbove();
  watched_[pid] = connection->worker;
  for (agent::core::Worker* old : workers_.OfProcess(pid)) {
    Connection* const replaced = ConnectionOf(old->incarnation);
    by_worker_.erase(old->incarnation);
    if (replaced != nullptr) replaced->stream->CloseFromAbove();
    if (old == known) continue;
    if (!old->left) ReportEnd(*old, "was initialised anew in the same process", true);
    Forget(old->incarnation);
  }
  departed_.erase(pid);
  agent::core::Worker& worker = workers_.Add(attach.worker_incarnation, pid);
  by_worker_[worker.incarnation] = connection;
  worker.said_hello = false;
  worker.heard = world_->simulation.now();
  connection->incarnation = attach.worker_incarnation;
  ToLocal(connection, Attached{id_, host_name_, 1000}, {});
  ToLocal(connection, LinkState{connected_, connected_ ? "" : "not yet", false}, {});
  if (!world_->bugs.retire_not_said_again) SayRetire(worker);
}

void Agent::Retire(int64_t pid) {
  if (!retired_.insert(pid).second) return;
  for (agent::core::Worker* worker : workers_.All()) {
    if (worker->pid == pid) SayRetire(*worker);
  }
}

void Agent::SayRetire(const agent::core::Worker& worker) {
  if (retired_.count(worker.pid) > 0) Say(farandole::Retire{worker.incarnation});
}

void Agent::FromWorkerUp(agent::core::Worker* worker, const WorkerUp& message) {
  if (workers_.NoteUp(worker, message, world_->simulation.now())) Put(workers_.MemoryOf(*worker));
  if (!worker->said_hello) return;
  if (const auto* announce = std::get_if<Announce>(&message)) {
    return Keeps(announcements_.Add(workers_.CountActive(), worker->incarnation, *announce));
  }
  if (const auto* halted = std::get_if<Halted>(&message)) {
    return Keeps(announcements_.Add(workers_.CountActive(), worker->incarnation, *halted));
  }
  FlushAnnouncements();
  if (std::holds_alternative<Hello>(message)) announcements_.Forget();
  Say(FromWorker{worker->incarnation, message, {}});
}

void Agent::Keeps(bool complete) {
  if (complete) return FlushAnnouncements();
  if (flush_posted_) return;
  flush_posted_ = true;
  process_->At(world_->simulation.now().PlusMs(kAnnouncementsMs), [this] { FlushAnnouncements(); });
}

void Agent::FlushAnnouncements() {
  flush_posted_ = false;
  std::vector<FromWorker> kept = announcements_.Take();
  if (kept.size() == 1) {
    Say(std::move(kept[0]));
  } else if (!kept.empty()) {
    Say(FromWorkers{std::move(kept)});
  }
}

void Agent::ConnectionClosed(Connection* connection) {
  agent::core::Worker* worker = workers_.Find(connection->incarnation);
  if (worker == nullptr || ConnectionOf(worker->incarnation) != connection) return;
  by_worker_.erase(worker->incarnation);
  connection->stream->CloseFromAbove();
  if (!worker->left) return;
  const pid_t pid = worker->pid;
  if (worker->elastic) departed_[pid] = worker->incarnation;
  Forget(worker->incarnation);
  if (workers_.OfProcess(pid).empty() && departed_.count(pid) == 0) watched_.erase(pid);
}

void Agent::ProcessDied(const Process* worker, const agent::processes::ProcessEnd& end) {
  process_->AfterUs(world_->random().Between(50, 3000), [this, worker, end] {
    // What came through its sockets before comes first.
    for (size_t i = 0; i < connections_.size(); ++i) {
      if (connections_[i].worker == worker) connections_[i].stream->up.Drain();
    }
    ProcessEnded(end);
  });
}

void Agent::ProcessEnded(const agent::processes::ProcessEnd& end) {
  const bool watched = watched_.erase(end.pid) > 0;
  // That of a pod has started it.
  if (!watched && !IsPod()) return;
  Ending ending;
  for (agent::core::Worker* gone : workers_.OfProcess(end.pid)) {
    Connection* const connection = ConnectionOf(gone->incarnation);
    if (connection != nullptr) connection->stream->CloseFromAbove();
    if (agent::core::MayHaveFinished(*gone, end.code, told_to_end_)) {
      ending.finished |= ReportEndOfElastic(gone->incarnation, end, gone->left);
    }
    if (!gone->left) ReportEnd(*gone, end.cause);
    const bool was_member = gone->said_hello || gone->rank.known();
    if (was_member && !gone->left && !gone->leaving && !gone->removed) ending.without_leaving = true;
    Forget(gone->incarnation);
  }
  const auto departed = departed_.find(end.pid);
  if (departed != departed_.end()) {
    ending.finished |= ReportEndOfElastic(departed->second, end, true);
    departed_.erase(departed);
  }
  left_when_told_.erase(end.pid);
  retired_.erase(end.pid);
  if (on_process_end_ != nullptr) on_process_end_(end, ending);
}

void Agent::ReportEnd(const agent::core::Worker& worker, const std::string& cause, bool lives) {
  agent::processes::WorkerMemory memory = workers_.MemoryOf(worker);
  memory.ended = true;
  memory.cause = cause;
  memory.lives = lives;
  Put(memory);
  KeepEnd(WorkerEnded{worker.incarnation, worker.pid, cause, false, lives});
  Say(ends_.back());
}

bool Agent::ReportEndOfElastic(Incarnation incarnation, const agent::processes::ProcessEnd& end, bool left) {
  WorkerEnded ended{incarnation, end.pid, end.cause, left};
  ended.finished = end.code == 0 && IsPod() && left_when_told_.count(end.pid) == 0;
  KeepEnd(ended);
  Say(ended);
  return ended.finished;
}

void Agent::Forget(Incarnation incarnation) {
  by_worker_.erase(incarnation);
  workers_.Erase(incarnation);
}

void Agent::CheckHealth() {
  for (agent::core::Worker* worker : workers_.All()) {
    const auto watched = watched_.find(worker->pid);
    const bool responsive = watched == watched_.end() || !watched->second->stopped();
    if (responsive == worker->responsive) continue;
    worker->responsive = responsive;
    worker->cause = responsive ? "" : "is stopped by a signal";
    Say(WorkerHealth{worker->incarnation, responsive, worker->cause});
  }
  process_->At(world_->simulation.now().PlusMs(kHealthMs), [this] { CheckHealth(); });
}

void Agent::BreakStream(TimePoint late) {
  if (stream_ == nullptr) return;
  if (world_->random().Percent(50)) return stream_->Break(late);
  // What it says meanwhile is on its way when the stream breaks.
  stream_->up.HoldUntil(late);
  world_->simulation.AfterUs(world_->random().Between(1000, 100000), [stream = stream_, late] { stream->Break(late); });
}

void Agent::StallStream(TimePoint until) {
  if (stream_ == nullptr) return;
  const uint64_t which = world_->random().Below(3);
  if (which != 1) stream_->up.StallUntil(until);
  if (which != 2) stream_->down.StallUntil(until);
}

TimePoint Agent::HeardUntil() const {
  const TimePoint now = world_->simulation.now();
  return stream_ == nullptr ? now : std::max(now, stream_->up.stalled_until());
}

void Agent::Crash() {
  process_->Kill();
  if (stream_ != nullptr) stream_->CloseFromBelow();
  for (Connection& connection : connections_) connection.stream->CloseFromAbove();
}

void Agent::Finish() {
  process_->Kill();
  if (stream_ != nullptr) stream_->CloseFromBelow();
}

void Agent::Vanish() {
  process_->Kill();
  if (stream_ != nullptr && world_->random().Percent(50)) stream_->CloseFromBelow();
}

}  // namespace farandole::sim
