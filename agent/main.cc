// farandole-agent: speaks to the controller for the workers of one host.
#include <grpc/support/log.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/core/agent.h"
#include "agent/launch/launch.h"
#include "agent/launch/options.h"
#include "agent/launcher/launcher_store.h"
#include "agent/segments/memory_budget.h"
#include "base/command_line.h"
#include "base/event_loop.h"
#include "base/unique_fd.h"
#include "proto/version.h"

namespace farandole::agent {
namespace {

constexpr int kUsageError = 2;
// At the end, for gRPC to let go.
constexpr int64_t kStopMs = 2000;
constexpr int64_t kStopPollMs = 5;
constexpr int64_t kNameTakenMs = 2000;

void Print(const std::string& text) {
  const std::string line = absl::StrCat("farandole-agent: ", text, "\n");
  (void)!write(STDERR_FILENO, line.data(), line.size());
}

core::AgentConfig ConfigOf(const launch::AgentOptions& options, const segments::MemoryBudget& budget) {
  core::AgentConfig config;
  config.link.channel.address = options.controller;
  config.link.channel.job = options.job;
  config.link.channel.token = options.token;
  config.link.channel.tls_ca_pem = options.tls_ca_pem;
  config.link.channel.tls_pinned = options.tls_pinned;
  config.link.channel.tls_cert_pem = options.tls_cert_pem;
  config.link.channel.tls_key_pem = options.tls_key_pem;
  config.link.channel.token_file = options.token_file;
  config.link.channel.tls_ca_file = options.tls_ca_file;
  config.link.channel.tls_cert_file = options.tls_cert_file;
  config.link.channel.tls_key_file = options.tls_key_file;
  const bool takes_workers_along = options.pod && !options.command.empty() && options.launcher_fd < 0;
  config.link.hello = AgentHello{options.agent_id, options.host_name, kVersion, 0, options.run, takes_workers_along};
  config.link.data_address = options.data_address;
  config.socket_name = options.socket_name;
  config.segment_bytes_max = budget.for_segments();
  return config;
}

// Wires the parts to the loop, the signals and the descriptors of the command line.
class Program {
 public:
  Program(const launch::AgentOptions& options, const sigset_t& handled, const sigset_t& inherited)
      : options_(options),
        loop_("farandole-agent"),
        store_(&loop_, UniqueFd(options.launcher_fd)),
        budget_(segments::ReadMemoryBudget()),
        agent_(&loop_, ConfigOf(options, budget_), &store_, Print) {
    signals_.Reset(signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
    loop_.AddFdFromLoop(signals_.get(), EPOLLIN, [this](uint32_t) { ReadSignal(); });
    if (options_.lifeline_fd >= 0) {
      lifeline_.Reset(options_.lifeline_fd);
      loop_.AddFdFromLoop(lifeline_.get(), EPOLLIN, [this](uint32_t) { ReadLifeline(); });
    }
    if (!options_.command.empty()) {
      launch_ = std::make_unique<launch::Launch>(&loop_, &options_, &agent_, &store_, inherited,
                                                 launch::Launch::Callbacks{Print, [this](int code) { Finish(code); }});
    }
  }

  int Run() {
    int code = 0;
    // In its turn: gRPC's thread takes the loop whenever nobody has it, and a refused connection ends at once.
    loop_.RunHere([this, &code] { code = StartFromLoop(); });
    if (code != 0) return code;
    loop_.Run();
    // A call that gRPC does not let go of must not keep the process.
    if (!agent_.Idle()) _exit(exit_code_);
    return exit_code_;
  }

 private:
  // An exit code if the agent cannot begin, otherwise 0.
  int StartFromLoop() {
    absl::StatusOr<std::vector<launcher::KeptEntry>> kept = store_.TakeAll();
    if (!kept.ok()) return Fail(kept.status(), 1);
    if (options_.verbose) Print(Describe(budget_));
    absl::Status status = Listen(!kept->empty());
    if (!status.ok()) return Fail(status, 1);
    if (launch_ != nullptr) status = launch_->StartFromLoop(&*kept);
    if (!status.ok()) return Fail(status, absl::IsNotFound(status) ? kUsageError : 1);
    agent_.RestoreFromLoop(&*kept);
    agent_.ConnectFromLoop();
    store_.ReadyFromLoop();
    store_.ListenFromLoop([this](pid_t pid) { agent_.RetireFromLoop(pid); });
    if (options_.ready_fd >= 0) {
      const UniqueFd ready(options_.ready_fd);
      const std::string line = options_.socket_name + "\n";
      (void)!write(ready.get(), line.data(), line.size());
    }
    return 0;
  }

  // A process that the agent before this one was just starting holds its socket until its program is loaded.
  absl::Status Listen(bool takes_over) {
    const TimePoint deadline = loop_.Now().PlusMs(takes_over ? kNameTakenMs : 0);
    for (;;) {
      const absl::Status status = agent_.ListenFromLoop();
      if (!absl::IsAlreadyExists(status) || deadline <= loop_.Now()) return status;
      poll(nullptr, 0, kStopPollMs);
    }
  }

  int Fail(const absl::Status& status, int code) {
    Print(std::string(status.message()));
    return code;
  }

  void ReadSignal() {
    signalfd_siginfo info;
    if (read(signals_.get(), &info, sizeof info) != sizeof info) return;
    const int number = static_cast<int>(info.ssi_signo);
    if (number == SIGCHLD) return agent_.watch()->ReapFromLoop();
    if (launch_ != nullptr) return launch_->PassOnFromLoop(number);
    if (number == SIGTERM || number == SIGINT || number == SIGHUP) Finish(0);
  }

  void ReadLifeline() {
    char ignored[256];
    const ssize_t n = read(lifeline_.get(), ignored, sizeof ignored);
    if (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN))) return;
    loop_.RemoveFdFromLoop(lifeline_.get());
    if (launch_ != nullptr) return launch_->LauncherGoneFromLoop();
    Finish(1);
  }

  void Finish(int exit_code) {
    if (finishing_) return;
    finishing_ = true;
    exit_code_ = exit_code;
    agent_.StopFromLoop();
    StopWhenIdle(loop_.Now().PlusMs(kStopMs));
  }

  void StopWhenIdle(TimePoint deadline) {
    if (agent_.Idle() || deadline <= loop_.Now()) return loop_.Stop();
    loop_.AddTimerFromLoop(loop_.Now().PlusMs(kStopPollMs), [this, deadline] { StopWhenIdle(deadline); });
  }

  const launch::AgentOptions options_;
  EventLoop loop_;
  launcher::LauncherStore store_;
  const segments::MemoryBudget budget_;
  core::Agent agent_;
  std::unique_ptr<launch::Launch> launch_;
  UniqueFd signals_;
  UniqueFd lifeline_;
  bool finishing_ = false;
  int exit_code_ = 0;
};

int Main(const std::vector<std::string>& arguments) {
  // Before any thread: all of them inherit it. Workers get back what was inherited.
  sigset_t handled, inherited;
  sigemptyset(&handled);
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD}) sigaddset(&handled, number);
  sigprocmask(SIG_BLOCK, &handled, &inherited);
  signal(SIGPIPE, SIG_IGN);
  if (const auto code = AnswerHelp(launch::AgentProgram(), arguments)) return *code;
  absl::StatusOr<launch::AgentOptions> options = launch::ParseAgentOptions(arguments);
  if (!options.ok()) return UsageError(launch::AgentProgram(), options.status());
  // gRPC reports every outage on standard error; the link does that once, in words.
  if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
  return Program(*options, handled, inherited).Run();
}

}  // namespace
}  // namespace farandole::agent

int main(int argc, char** argv) { return farandole::agent::Main(std::vector<std::string>(argv + 1, argv + argc)); }
