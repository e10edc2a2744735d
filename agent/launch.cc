#include "agent/launch.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/worker_environment.h"
#include "agent/worker_process.h"

namespace farandole {
namespace {

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

Launch::Launch(EventLoop* loop, const AgentOptions* options, Agent* agent, const sigset_t& signal_mask,
               Callbacks callbacks)
    : loop_(loop),
      options_(options),
      agent_(agent),
      signal_mask_(signal_mask),
      callbacks_(std::move(callbacks)),
      stdout_(loop, STDOUT_FILENO),
      stderr_(loop, STDERR_FILENO),
      supervisor_(options->local_size, options->grace_ms, options->host_name) {
  agent_->OnProcessEnd([this](const ProcessEnd& end, bool without_leaving) { Ended(end, without_leaving); });
}

Launch::~Launch() {
  loop_->CancelTimerFromLoop(timer_);
  agent_->OnProcessEnd(nullptr);
}

absl::Status Launch::StartFromLoop() {
  for (int local_rank = 0; local_rank < options_->local_size; ++local_rank) {
    absl::Status status = StartOne(local_rank);
    if (status.ok()) continue;
    for (auto& [pid, child] : children_) killpg(pid, SIGKILL);
    return status;
  }
  return absl::OkStatus();
}

absl::Status Launch::StartOne(int local_rank) {
  Child child;
  child.rank = Rank(options_->first_rank + local_rank);
  WorkerCommand command;
  command.arguments = options_->command;
  command.environment = WorkerEnvironment(*options_, local_rank);
  command.signal_mask = signal_mask_;
  Pipe out, err;
  if (options_->prefix_output) {
    for (Pipe* pipe : {&out, &err}) {
      absl::StatusOr<Pipe> fresh = NewPipe();
      if (!fresh.ok()) return fresh.status();
      *pipe = std::move(*fresh);
    }
    command.stdout_fd = out.write_end.get();
    command.stderr_fd = err.write_end.get();
  }
  absl::StatusOr<pid_t> pid = StartWorker(command);
  if (!pid.ok()) return pid.status();
  if (options_->prefix_output) {
    const std::string prefix = absl::StrCat("[", child.rank.value(), "] ");
    child.out = std::make_unique<OutputRelay>(loop_, std::move(out.read_end), prefix, &stdout_);
    child.err = std::make_unique<OutputRelay>(loop_, std::move(err.read_end), prefix, &stderr_);
  }
  children_[*pid] = std::move(child);
  return agent_->watch()->WatchChildFromLoop(*pid);
}

void Launch::PassOnFromLoop(int signal) {
  for (auto& [pid, child] : children_) killpg(pid, signal);
}

void Launch::LauncherGoneFromLoop() { Apply(supervisor_.LauncherGone(loop_->Now())); }

void Launch::Ended(const ProcessEnd& end, bool without_leaving) {
  auto it = children_.find(end.pid);
  if (it == children_.end()) return;
  Child child = std::move(it->second);
  children_.erase(it);
  for (OutputRelay* relay : {child.out.get(), child.err.get()}) {
    if (relay != nullptr) relay->FinishFromLoop();
  }
  const RankRecord record = agent_->Record(child.rank);
  WorkerEnd worker;
  worker.rank = child.rank;
  worker.process = end;
  worker.without_leaving = without_leaving;
  worker.stopped_taking_part = record.stopped_taking_part;
  worker.removed_because = record.removed_because;
  if (end.code != 0 || !record.removed_because.empty()) killpg(end.pid, SIGKILL);  // what it has left behind
  ended_.push_back(std::move(child));
  Apply(supervisor_.Ended(worker, loop_->Now()));
}

void Launch::Apply(const Supervisor::Step& step) {
  if (!step.sentence.empty()) callbacks_.log(step.sentence);
  for (auto& [pid, child] : children_) {
    const RankRecord record = agent_->Record(child.rank);
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
  callbacks_.on_finished(step.exit_code);
}

}  // namespace farandole
