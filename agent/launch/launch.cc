#include "agent/launch/launch.h"

#include <fcntl.h>
#include <sysexits.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "agent/launch/worker_environment.h"
#include "agent/processes/end_memory.h"
#include "agent/processes/worker_process.h"

namespace farandole::agent::launch {
namespace {

// Keys of the store: a worker says itself that it is there, with its number and its outputs.
constexpr char kWorker[] = "worker ";
// At the end, for a slow terminal.
constexpr int64_t kFlushMs = 2000;

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

absl::StatusOr<Pipe> NewPipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot make a pipe: ", std::strerror(errno)));
  }
  Pipe pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
  // Only our end: the worker's output blocks as usual.
  fcntl(fds[0], F_SETFL, O_NONBLOCK);
  return pipe;
}

}  // namespace

Launch::Launch(EventLoop* loop, const AgentOptions* options, core::Agent* agent, launcher::LauncherStore* store,
               const sigset_t& signal_mask, Callbacks callbacks)
    : loop_(loop),
      options_(options),
      agent_(agent),
      store_(store),
      signal_mask_(signal_mask),
      callbacks_(std::move(callbacks)),
      stdout_(loop, STDOUT_FILENO, [this](const std::string& why) { CannotWrite("stdout", why); }),
      stderr_(loop, STDERR_FILENO, [this](const std::string& why) { CannotWrite("stderr", why); }),
      supervisor_({options->local_size, options->grace_ms, options->host_name, options->pod ? EX_TEMPFAIL : 1,
                   options->min_size > 0, options->leave_ms}) {
  agent_->OnProcessEnd(
      [this](const processes::ProcessEnd& end, const core::Agent::Ending& ending) { Ended(end, ending); });
}

void Launch::CannotWrite(const char* stream, const std::string& why) {
  callbacks_.log(absl::StrCat("the launcher's ", stream, " cannot be written: ", why, "; the job goes on without"));
}

Launch::~Launch() {
  loop_->CancelTimerFromLoop(timer_);
  agent_->OnProcessEnd(nullptr);
}

absl::Status Launch::StartFromLoop(std::vector<launcher::KeptEntry>* kept) {
  absl::Status status = TakeOver(kept);
  for (int local_rank = 0; status.ok() && local_rank < options_->local_size; ++local_rank) {
    if (started_.count(options_->first_rank + local_rank) == 0) status = StartOne(local_rank);
  }
  if (status.ok()) return status;
  for (auto& [pid, child] : children_) killpg(pid, SIGKILL);
  return status;
}

absl::Status Launch::TakeOver(std::vector<launcher::KeptEntry>* kept) {
  std::vector<processes::WorkerEnd> ends;
  std::set<pid_t> ended;
  for (const launcher::KeptEntry& entry : *kept) {
    absl::StatusOr<processes::WorkerEnd> end = processes::ParseEnd(entry.key, entry.value);
    if (!end.ok()) continue;
    ended.insert(end->process.pid);
    ends.push_back(std::move(*end));
  }
  for (launcher::KeptEntry& entry : *kept) {
    absl::string_view key = entry.key;
    int32_t rank;
    pid_t pid;
    if (!absl::ConsumePrefix(&key, kWorker) || !absl::SimpleAtoi(key, &rank)) continue;
    if (!absl::SimpleAtoi(entry.value, &pid)) return absl::InternalError(absl::StrCat("bad entry of rank ", rank));
    started_.insert(rank);
    Child& child = children_[pid];
    child.rank = Rank(rank);
    if (entry.fds.size() == 2) Relay(&child, std::move(entry.fds[0]), std::move(entry.fds[1]));
    if (ended.count(pid) > 0) continue;
    // In this order: the launcher puts those in front that have ended, in the order of their ends.
    const absl::Status watched = agent_->watch()->WatchSiblingFromLoop(pid);
    if (!watched.ok()) return watched;
  }
  for (const processes::WorkerEnd& end : ends) Judge(end);
  return absl::OkStatus();
}

void Launch::Relay(Child* child, UniqueFd out, UniqueFd err) {
  const std::string host = elastic() ? absl::StrCat(options_->host_name, ":") : "";
  const std::string prefix = absl::StrCat("[", host, child->rank.value(), "] ");
  child->out = std::make_unique<output::OutputRelay>(loop_, std::move(out), prefix, &stdout_);
  child->err = std::make_unique<output::OutputRelay>(loop_, std::move(err), prefix, &stderr_);
}

absl::Status Launch::StartOne(int local_rank) {
  Child child;
  child.rank = Rank(options_->first_rank + local_rank);
  processes::WorkerCommand command;
  command.arguments = options_->command;
  command.environment = WorkerEnvironment(*options_, local_rank);
  command.signal_mask = signal_mask_;
  command.store_fd = store_->fd();
  command.store_key = absl::StrCat(kWorker, child.rank.value());
  Pipe out, err;
  if (options_->prefix_output) {
    for (Pipe* pipe : {&out, &err}) {
      absl::StatusOr<Pipe> fresh = NewPipe();
      if (!fresh.ok()) return fresh.status();
      *pipe = std::move(*fresh);
      command.kept_fds.push_back(pipe->read_end.get());
    }
    command.stdout_fd = out.write_end.get();
    command.stderr_fd = err.write_end.get();
  }
  absl::StatusOr<pid_t> pid = processes::StartWorker(command);
  if (!pid.ok()) return pid.status();
  if (options_->prefix_output) Relay(&child, std::move(out.read_end), std::move(err.read_end));
  children_[*pid] = std::move(child);
  if (elastic()) agent_->StartedFromLoop(*pid);
  return store_->exists() ? agent_->watch()->WatchSiblingFromLoop(*pid) : agent_->watch()->WatchChildFromLoop(*pid);
}

void Launch::PassOnFromLoop(int signal) {
  if (signal == SIGTERM && elastic() && !supervisor_.asked_to_leave()) {
    callbacks_.log(absl::StrCat("asked to end: the processes of this host leave the job at their next commit, or are ",
                                "ended in ", options_->leave_ms / 1000, " s"));
    return Apply(supervisor_.AskedToLeave(loop_->Now()));
  }
  if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT) {
    supervisor_.AskedToEnd(loop_->Now());
    agent_->ToldToEndFromLoop();
  }
  for (auto& [pid, child] : children_) killpg(pid, signal);
}

void Launch::LauncherGoneFromLoop() { Apply(supervisor_.LauncherGone(loop_->Now())); }

void Launch::Ended(const processes::ProcessEnd& end, const core::Agent::Ending& ending) {
  auto it = children_.find(end.pid);
  if (it == children_.end()) return;
  const core::RankRecord record = RecordOf(it->second.rank);
  processes::WorkerEnd worker;
  worker.rank = it->second.rank;
  worker.process = end;
  worker.without_leaving = ending.without_leaving;
  worker.finished = ending.finished;
  worker.stopped_taking_part = record.stopped_taking_part;
  worker.removed_because = record.removed_because;
  // It has failed because of that, whatever it says itself; another attempt may find room.
  if (end.code != 0 && worker.removed_because.empty()) worker.removed_because = agent_->NoRoomFromLoop();
  worker.agent_stood_still_ms = agent_->StoodStillMs();
  store_->PutFromLoop(processes::EndKey(worker.rank), processes::EndLine(worker));
  Judge(worker);
}

void Launch::Judge(const processes::WorkerEnd& worker) {
  auto it = children_.find(worker.process.pid);
  if (it == children_.end()) return;
  Child child = std::move(it->second);
  children_.erase(it);
  for (output::OutputRelay* relay : {child.out.get(), child.err.get()}) {
    if (relay != nullptr) relay->FinishFromLoop();
  }
  // One that has failed ends the job, and may have failed only because it waited for another one in vain.
  if (worker.process.code == 0 && !elastic()) agent_->RankEndedFromLoop(worker.rank, worker.process);
  const pid_t pid = worker.process.pid;
  if (worker.process.code != 0 || !worker.removed_because.empty()) killpg(pid, SIGKILL);  // what it has left behind
  ended_.push_back(std::move(child));
  Apply(supervisor_.Ended(worker, loop_->Now()));
}

void Launch::Apply(const processes::Supervisor::Step& step) {
  if (!step.sentence.empty()) callbacks_.log(step.sentence);
  if (step.signal != 0) agent_->ToldToEndFromLoop();
  for (auto& [pid, child] : children_) {
    if (step.retire) agent_->RetireFromLoop(pid);
    const core::RankRecord record = RecordOf(child.rank);
    const bool left = record.stopped_taking_part != TimePoint::Infinite();
    const int signal = left ? step.signal_to_left : step.signal;
    if (signal == 0) continue;
    if (signal == SIGTERM && record.removed_pid != 0) {
      // It makes of this the error that it has been sent. If its data-loader workers died with it now, their end would
      // be the error instead; they are killed after it.
      kill(record.removed_pid, signal);
    } else {
      killpg(pid, signal);
    }
  }
  loop_->CancelTimerFromLoop(timer_);
  if (supervisor_.NextDeadline() != TimePoint::Infinite()) {
    timer_ = loop_->AddTimerFromLoop(supervisor_.NextDeadline(), [this] { Apply(supervisor_.Tick(loop_->Now())); });
  }
  if (!step.finished) return;
  stdout_.FinishFromLoop(kFlushMs);
  stderr_.FinishFromLoop(kFlushMs);
  // Not inside of StartFromLoop().
  loop_->Post([this, code = step.exit_code] { callbacks_.on_finished(code); });
}

}  // namespace farandole::agent::launch
