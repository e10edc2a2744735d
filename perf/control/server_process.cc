#include "perf/control/server_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"

namespace farandole::perf::control {
namespace {

constexpr int64_t kReadyMs = 10000;
constexpr int kKeyFd = 3, kReadyFd = 4, kLifelineFd = 5;

struct Pipe {
  Pipe() {
    int fds[2];
    // Above the numbers that the child gets them under.
    if (pipe2(fds, O_CLOEXEC) != 0) return;
    read.Reset(fcntl(fds[0], F_DUPFD_CLOEXEC, 10));
    write.Reset(fcntl(fds[1], F_DUPFD_CLOEXEC, 10));
    close(fds[0]);
    close(fds[1]);
  }
  UniqueFd read, write;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ServerProcess>> ServerProcess::Start(std::vector<std::string> command,
                                                                    const std::string& key) {
  Pipe secret, ready, lifeline;
  if (!lifeline.write.valid()) return absl::ResourceExhaustedError("no descriptors left for pipes");
  if (write(secret.write.get(), key.data(), key.size()) != static_cast<ssize_t>(key.size())) {
    return absl::InternalError("cannot write to a pipe");
  }
  secret.write.Reset();
  for (const auto& [option, fd] :
       {std::pair("--key-fd", kKeyFd), {"--ready-fd", kReadyFd}, {"--lifeline-fd", kLifelineFd}}) {
    command.push_back(option);
    command.push_back(std::to_string(fd));
  }
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, secret.read.get(), kKeyFd);
  posix_spawn_file_actions_adddup2(&actions, ready.write.get(), kReadyFd);
  posix_spawn_file_actions_adddup2(&actions, lifeline.read.get(), kLifelineFd);
  // None of the caller's variables: what is measured is the default.
  char* environment[] = {nullptr};
  pid_t pid = 0;
  const int error = posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environment);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return absl::NotFoundError(absl::StrCat("cannot start ", command[0], ": ", std::strerror(error)));
  std::unique_ptr<ServerProcess> process(new ServerProcess(pid, std::move(lifeline.write)));
  ready.write.Reset();
  const absl::Status status = process->ReadAddress(ready.read.get());
  if (!status.ok()) return status;
  return process;
}

absl::Status ServerProcess::ReadAddress(int fd) {
  const TimePoint deadline = Clock::Monotonic().Now().PlusMs(kReadyMs);
  while (address_.empty() || address_.back() != '\n') {
    const int64_t left = deadline.MsSince(Clock::Monotonic().Now());
    pollfd waits{fd, POLLIN, 0};
    char buffer[256];
    const ssize_t n = left > 0 && poll(&waits, 1, static_cast<int>(left)) > 0 ? read(fd, buffer, sizeof buffer) : 0;
    if (n <= 0 || address_.size() > sizeof buffer) return absl::UnavailableError("the server did not say its address");
    address_.append(buffer, n);
  }
  address_.pop_back();
  return absl::OkStatus();
}

ServerProcess::~ServerProcess() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

}  // namespace farandole::perf::control
