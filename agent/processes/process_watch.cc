#include "agent/processes/process_watch.h"

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole::agent::processes {
namespace {

// Children collected in one go; SIGCHLD and the pidfds come again for the rest.
constexpr int kReapsMax = 4096;

}  // namespace

ProcessWatch::ProcessWatch(EventLoop* loop, Callback on_end) : loop_(loop), on_end_(std::move(on_end)) {}

ProcessWatch::~ProcessWatch() {
  for (auto& [pid, process] : processes_) loop_->RemoveFdFromLoop(process.pidfd.get());
}

absl::Status ProcessWatch::WatchFromLoop(pid_t pid) { return Add(pid, Kind::kOther); }
absl::Status ProcessWatch::WatchChildFromLoop(pid_t pid) { return Add(pid, Kind::kChild); }
absl::Status ProcessWatch::WatchSiblingFromLoop(pid_t pid) { return Add(pid, Kind::kSibling); }

absl::Status ProcessWatch::Add(pid_t pid, Kind kind) {
  auto [it, fresh] = processes_.try_emplace(pid);
  if (!fresh) return absl::OkStatus();
  // glibc 2.35 has no wrapper yet. The descriptor is CLOEXEC by definition.
  UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd.valid()) {
    processes_.erase(it);
    const std::string text = absl::StrCat("cannot watch process ", pid, ": ", std::strerror(errno));
    return errno == ESRCH ? absl::NotFoundError(text) : absl::ResourceExhaustedError(text);
  }
  loop_->AddFdFromLoop(pidfd.get(), EPOLLIN, [this, pid](uint32_t) { PidfdReadable(pid); });
  it->second.pidfd = std::move(pidfd);
  it->second.kind = kind;
  return absl::OkStatus();
}

void ProcessWatch::ForgetFromLoop(pid_t pid) {
  auto it = processes_.find(pid);
  if (it == processes_.end() || it->second.kind != Kind::kOther) return;
  loop_->RemoveFdFromLoop(it->second.pidfd.get());
  processes_.erase(it);
}

int ProcessWatch::children() const {
  return static_cast<int>(std::count_if(processes_.begin(), processes_.end(),
                                        [](const auto& entry) { return entry.second.kind == Kind::kChild; }));
}

void ProcessWatch::PidfdReadable(pid_t pid) {
  // If it was ours, or came to us as PID 1, this tells how it ended.
  ReapFromLoop();
  auto it = processes_.find(pid);
  if (it == processes_.end() || it->second.kind == Kind::kChild) return;
  // Whose parent has not waited for it yet, tells how it ended, too.
  if (it->second.kind == Kind::kOther) return End(ReadEnd(pid));
  // Nobody has waited for it yet, so its number is not another group's.
  killpg(pid, SIGKILL);
  End(ReadEnd(pid));
}

void ProcessWatch::ReapFromLoop() {
  for (int i = 0; i < kReapsMax; ++i) {
    siginfo_t info{};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    auto it = processes_.find(info.si_pid);
    // Before it is collected its number cannot be given to another group.
    if (it != processes_.end() && it->second.kind == Kind::kChild) killpg(info.si_pid, SIGKILL);
    siginfo_t collected{};
    waitid(P_PID, info.si_pid, &collected, WEXITED | WNOHANG);
    if (it != processes_.end()) End(DescribeEnd(info));
  }
}

void ProcessWatch::End(const ProcessEnd& end) {
  auto it = processes_.find(end.pid);
  loop_->RemoveFdFromLoop(it->second.pidfd.get());
  processes_.erase(it);
  on_end_(end);
}

}  // namespace farandole::agent::processes
