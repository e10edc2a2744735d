#include "agent/processes/worker_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "agent/launcher/packet_socket.h"
#include "base/unique_fd.h"

namespace farandole::agent::processes {
namespace {

// Everything the child needs, made before the fork: other threads may hold the allocator's lock.
struct Prepared {
  std::vector<char*> arguments;
  std::vector<char*> environment;
  int stdin_fd;
  int stdout_fd;
  int stderr_fd;
  int error_fd;
  pid_t parent;
  sigset_t signal_mask;
  int store_fd;
  std::string registration;
  std::vector<int> kept_fds;
};

// "put LF 0000000000 LF key"; the child fills in its number.
constexpr char kPut[] = "put\n";
constexpr int kPidDigits = 10;

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Waits until the launcher has room for it; false if there is no launcher any more, or it does not count on this agent.
bool Register(Prepared* prepared) {
  char* digit = &prepared->registration[sizeof kPut - 1 + kPidDigits];
  for (pid_t rest = getpid(); rest > 0; rest /= 10) *--digit = static_cast<char>('0' + rest % 10);
  const std::string& packet = prepared->registration;
  while (!launcher::SendPacket(prepared->store_fd, packet.data(), packet.size(), prepared->kept_fds.data(),
                               static_cast<int>(prepared->kept_fds.size()))) {
    if (errno != EAGAIN) return false;
    pollfd room{prepared->store_fd, POLLOUT, 0};
    poll(&room, 1, -1);
  }
  return true;
}

// Only what is safe in the child of a process with threads.
[[noreturn]] void RunChild(Prepared* child) {
  const Prepared& prepared = *child;
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != prepared.parent) _exit(127);
  if (prepared.store_fd >= 0 && !Register(child)) _exit(127);
  dup2(prepared.stdin_fd, STDIN_FILENO);
  if (prepared.stdout_fd >= 0) dup2(prepared.stdout_fd, STDOUT_FILENO);
  if (prepared.stderr_fd >= 0) dup2(prepared.stderr_fd, STDERR_FILENO);
  signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_SETMASK, &prepared.signal_mask, nullptr);
  execvpe(prepared.arguments[0], prepared.arguments.data(), prepared.environment.data());
  const int error = errno;
  (void)!write(prepared.error_fd, &error, sizeof error);
  _exit(127);
}

// The error of exec, 0 if it succeeded: success closes the pipe.
int ReadExecError(int fd) {
  int error = 0;
  ssize_t n;
  do {
    n = read(fd, &error, sizeof error);
  } while (n < 0 && errno == EINTR);
  return n == sizeof error ? error : 0;
}

absl::Status NoneLeft(const char* what) {
  return absl::ResourceExhaustedError(absl::StrCat("cannot start a worker: ", what, ": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<pid_t> StartWorker(const WorkerCommand& command) {
  UniqueFd empty(open("/dev/null", O_RDONLY | O_CLOEXEC));
  int fds[2];
  if (!empty.valid()) return NoneLeft("/dev/null");
  if (pipe2(fds, O_CLOEXEC) != 0) return NoneLeft("pipe");
  UniqueFd read_end(fds[0]), write_end(fds[1]);
  const bool outlives = command.store_fd >= 0;
  Prepared prepared{Pointers(command.arguments),
                    Pointers(command.environment),
                    empty.get(),
                    command.stdout_fd,
                    command.stderr_fd,
                    write_end.get(),
                    outlives ? getppid() : getpid(),
                    command.signal_mask,
                    command.store_fd,
                    absl::StrCat(kPut, std::string(kPidDigits, '0'), "\n", command.store_key),
                    command.kept_fds};
  // There is no wrapper for a child of one's parent; what it does until exec needs none of what fork() prepares.
  const pid_t pid = outlives ? static_cast<pid_t>(syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0)) : fork();
  if (pid < 0) return NoneLeft("fork");
  if (pid == 0) RunChild(&prepared);
  // In both processes, so that neither can see it undone.
  setpgid(pid, pid);
  write_end.Reset();
  const int error = ReadExecError(read_end.get());
  if (error == 0) return pid;
  if (!outlives) waitpid(pid, nullptr, 0);
  return absl::NotFoundError(absl::StrCat("cannot execute '", command.arguments[0], "': ", std::strerror(error)));
}

}  // namespace farandole::agent::processes
