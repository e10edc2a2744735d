#include "agent/core/agent_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "agent/core/liveness.h"
#include "base/clock.h"

namespace farandole::agent::core {
namespace {

constexpr int64_t kPatienceMs = 40000;
constexpr int kSliceMs = 20;

std::pair<UniqueFd, UniqueFd> NewPipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) std::abort();
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

bool ReadInto(UniqueFd* fd, std::string* text) {
  char buffer[65536];
  const ssize_t n = read(fd->get(), buffer, sizeof buffer);
  if (n > 0) text->append(buffer, n);
  if (n == 0 || (n < 0 && errno != EINTR)) fd->Reset();
  return n > 0;
}

}  // namespace

AgentProgram::AgentProgram(const Options& options) {
  auto [out_read, out_write] = NewPipe();
  auto [err_read, err_write] = NewPipe();
  auto [token_read, token_write] = NewPipe();
  auto [life_read, life_write] = NewPipe();
  if (write(token_write.get(), options.token.data(), options.token.size()) < 0) std::abort();
  token_write.Reset();
  std::vector<std::string> arguments = options.wrapper;
  const std::vector<std::string> ours = {"agent/farandole-agent",
                                         "--job",
                                         "test",
                                         "--controller",
                                         options.controller,
                                         "--token-fd",
                                         "10",
                                         "--lifeline-fd",
                                         "11",
                                         "--size",
                                         std::to_string(options.size),
                                         "--host-name",
                                         "here"};
  arguments.insert(arguments.end(), ours.begin(), ours.end());
  arguments.insert(arguments.end(), options.more.begin(), options.more.end());
  if (!options.command.empty()) arguments.push_back("--");
  arguments.insert(arguments.end(), options.command.begin(), options.command.end());
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(&argument[0]);
  pointers.push_back(nullptr);

  char path[] = "PATH=/usr/local/bin:/usr/bin:/bin";
  char* const environment[] = {path, nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out_write.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err_write.get(), STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&actions, token_read.get(), 10);
  posix_spawn_file_actions_adddup2(&actions, life_read.get(), 11);
  if (posix_spawnp(&pid_, pointers[0], &actions, nullptr, pointers.data(), environment) != 0) std::abort();
  posix_spawn_file_actions_destroy(&actions);
  out_fd_ = std::move(out_read);
  err_fd_ = std::move(err_read);
  lifeline_ = std::move(life_write);
}

AgentProgram::~AgentProgram() {
  if (pid_ < 0) return;
  // Its workers die with it.
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

bool AgentProgram::ReadSome() {
  pollfd ready[2] = {{out_fd_.get(), POLLIN, 0}, {err_fd_.get(), POLLIN, 0}};
  if (poll(ready, 2, kSliceMs) > 0) {
    if (ready[0].revents != 0) ReadInto(&out_fd_, &out_);
    if (ready[1].revents != 0) ReadInto(&err_fd_, &err_);
  }
  return out_fd_.valid() || err_fd_.valid();
}

int AgentProgram::Wait() {
  const TimePoint deadline = Clock::Monotonic().Now().PlusMs(kPatienceMs);
  while (Clock::Monotonic().Now() < deadline) {
    ReadSome();
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) != pid_) continue;
    pid_ = -1;
    while (ReadSome() && Clock::Monotonic().Now() < deadline) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  return -1;
}

bool AgentProgram::WaitFor(const std::string& text) {
  const TimePoint deadline = Clock::Monotonic().Now().PlusMs(kPatienceMs);
  while (Clock::Monotonic().Now() < deadline) {
    if (out_.find(text) != std::string::npos || err_.find(text) != std::string::npos) return true;
    if (!ReadSome()) break;
  }
  return out_.find(text) != std::string::npos || err_.find(text) != std::string::npos;
}

std::vector<std::string> FakeWorkerCommand(std::vector<std::string> verbs) {
  verbs.insert(verbs.begin(), "agent/core/fake_worker");
  return verbs;
}

std::vector<std::string> FakeWorkersByRank(const std::vector<std::string>& verbs) {
  std::string script = "case $FARANDOLE_RANK in ";
  for (size_t rank = 0; rank < verbs.size(); ++rank) {
    script += std::to_string(rank) + ") exec agent/core/fake_worker " + verbs[rank] + ";; ";
  }
  return {"sh", "-c", script + "esac"};
}

bool WaitUntilGone(pid_t pid) {
  const TimePoint deadline = Clock::Monotonic().Now().PlusMs(kPatienceMs);
  while (Clock::Monotonic().Now() < deadline) {
    const char state = ProcessState(pid);
    if (state == 0 || state == 'Z') return true;
    poll(nullptr, 0, kSliceMs);
  }
  return false;
}

}  // namespace farandole::agent::core
