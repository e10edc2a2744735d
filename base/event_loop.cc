#include "base/event_loop.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/start_thread.h"

namespace farandole {
namespace {

using Runner = LoopLending::Runner;

// A thread that looks for events asks a poller so often for each system call: one takes about as long as ten of the
// other.
constexpr int kLooksPerCall = 32;

void RunAll(const std::vector<EventLoop::Function>& functions) {
  for (const EventLoop::Function& fn : functions) fn();
}

}  // namespace

EventLoop::EventLoop(std::string name) : name_(std::move(name)), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_.valid() || !lending_.valid()) {
    made_ = absl::ResourceExhaustedError(
        absl::StrCat("cannot make the descriptors of the thread \"", name_, "\": ", std::strerror(errno),
                     "; look at the limit of open files (ulimit -n), and at what this process has open"));
    return;
  }
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = lending_.wake_fd();
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, lending_.wake_fd(), &event);
}

EventLoop::~EventLoop() { Join(); }

absl::Status EventLoop::Start() {
  if (!made_.ok()) return made_;
  absl::StatusOr<std::thread> thread = StartThread(name_, [this] { Run(); });
  if (!thread.ok()) return thread.status();
  thread_ = *std::move(thread);
  return absl::OkStatus();
}

void EventLoop::Hold() {
  run_mutex_.Lock();
  holder_.store(std::this_thread::get_id(), std::memory_order_relaxed);
}

std::vector<EventLoop::Function> EventLoop::LetGo() {
  std::vector<Function> afterwards;
  afterwards.swap(afterwards_);
  holder_.store(std::thread::id(), std::memory_order_relaxed);
  run_mutex_.Unlock();
  return afterwards;
}

void EventLoop::Run() {
  if (!made_.ok()) {
    const std::string line = absl::StrCat(made_.message(), "\n");
    (void)!write(STDERR_FILENO, line.data(), line.size());
    std::abort();
  }
  while (lending_.AwaitTurn()) {
    std::vector<Function> afterwards;
    Turn(Runner::kOwn, /*wait=*/true, TimePoint::Infinite(), &afterwards);
    RunAll(afterwards);
  }
}

bool EventLoop::Turn(Runner runner, bool wait, TimePoint until, std::vector<Function>* afterwards) {
  constexpr int kEvents = 64;
  epoll_event events[kEvents];
  const bool polls = poller_.load(std::memory_order_acquire) != nullptr;
  const bool only_polls = polls && !wait && ++looks_ % kLooksPerCall != 0;
  bool found = wait && polls && PollBeforeWait(afterwards);
  wait = wait && !found;
  const int n = only_polls ? 0 : epoll_wait(epoll_.get(), events, kEvents, wait ? BeginWaitMs(runner, until) : 0);
  if (wait) lending_.EndWait(runner);
  Hold();
  // Asked again: it may have been removed meanwhile.
  if (Poller* const current = poller_.load(std::memory_order_acquire); current != nullptr && current->PollFromLoop()) {
    found = true;
  }
  HandleEvents(events, n);
  RunTimers();
  RunAll(lending_.TakePosted());
  for (Function& fn : LetGo()) afterwards->push_back(std::move(fn));
  return found || n > 0;
}

bool EventLoop::PollBeforeWait(std::vector<Function>* afterwards) {
  Hold();
  Poller* const poller = poller_.load(std::memory_order_acquire);
  bool found = false;
  if (poller != nullptr) {
    poller->ArmFromLoop();
    // What came before it was armed wakes nobody.
    found = poller->PollFromLoop();
  }
  *afterwards = LetGo();
  return found;
}

int EventLoop::BeginWaitMs(Runner runner, TimePoint until) {
  Hold();
  until = std::min(until, NextTimer());
  const bool waits = lending_.BeginWait(runner, until);
  LetGo();
  if (!waits) return 0;
  if (until == TimePoint::Infinite()) return -1;
  const int64_t ns = std::max<int64_t>(until.ns() - Now().ns(), 0);
  return static_cast<int>(std::min<int64_t>((ns + 999999) / 1000000, INT_MAX));
}

void EventLoop::HandleEvents(const epoll_event* events, int count) {
  for (int i = 0; i < count; ++i) {
    const int fd = events[i].data.fd;
    if (fd == lending_.wake_fd()) {
      lending_.ClearWake();
      continue;
    }
    // An earlier handler of this round may have removed it.
    auto it = handlers_.find(fd);
    if (it == handlers_.end()) continue;
    std::shared_ptr<FdHandler> handler = it->second;
    (*handler)(events[i].events);
  }
}

bool EventLoop::Drive(const std::function<bool()>& done, int64_t look_ns, TimePoint until) {
  if (!lending_.Borrow()) return false;
  int64_t look_until_ns = look_ns > 0 ? Now().ns() + look_ns : 0;
  const bool bounded = until != TimePoint::Infinite();
  while (!done() && !lending_.stopped() && !(bounded && until <= Now())) {
    const bool look = look_ns > 0 && Now().ns() < look_until_ns;
    std::vector<Function> afterwards;
    if (Turn(Runner::kBorrower, !look, until, &afterwards) && look_ns > 0) look_until_ns = Now().ns() + look_ns;
    if (afterwards.empty()) continue;
    GiveBack();
    RunAll(afterwards);
    if (!lending_.Borrow()) return false;
  }
  GiveBack();
  return !lending_.stopped();
}

void EventLoop::GiveBack() {
  Hold();
  Poller* const poller = poller_.load(std::memory_order_acquire);
  if (lending_.GiveBack(NextTimer()) && poller != nullptr) {
    // The own thread armed it, but the borrower may have taken since what was to come of that.
    poller->ArmFromLoop();
    poller->PollFromLoop();
    lending_.WakeForTimer(NextTimer());
  }
  RunAll(LetGo());
}

void EventLoop::Stop() { lending_.Stop(); }

void EventLoop::Join() {
  Stop();
  if (thread_.joinable()) thread_.join();
  lending_.TakePosted();
}

void EventLoop::Post(Function fn) { lending_.Post(std::move(fn)); }

void EventLoop::RunOrPost(Function fn) {
  // Not from within a function of the loop, where others may have to run first and the lock is held.
  if (InLoop() || !run_mutex_.TryLock()) return Post(std::move(fn));
  holder_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  const bool idle = lending_.idle();
  if (idle) {
    fn();
    lending_.WakeForTimer(NextTimer());
  }
  RunAll(LetGo());
  if (!idle) Post(std::move(fn));
}

void EventLoop::RunHere(const Function& fn) {
  Hold();
  fn();
  lending_.WakeForTimer(NextTimer());
  RunAll(LetGo());
}

void EventLoop::AddFdFromLoop(int fd, uint32_t epoll_events, FdHandler handler) {
  handlers_[fd] = std::make_shared<FdHandler>(std::move(handler));
  epoll_event event{};
  event.events = epoll_events;
  event.data.fd = fd;
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
}

void EventLoop::ModifyFdFromLoop(int fd, uint32_t epoll_events) {
  epoll_event event{};
  event.events = epoll_events;
  event.data.fd = fd;
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void EventLoop::RemoveFdFromLoop(int fd) {
  if (handlers_.erase(fd) > 0) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

EventLoop::TimerId EventLoop::AddTimerFromLoop(TimePoint when, Function fn) {
  const TimerId id = next_timer_++;
  timers_.emplace(std::make_pair(when.ns(), id), std::move(fn));
  timer_times_.emplace(id, when.ns());
  return id;
}

void EventLoop::CancelTimerFromLoop(TimerId id) {
  auto it = timer_times_.find(id);
  if (it == timer_times_.end()) return;
  timers_.erase({it->second, id});
  timer_times_.erase(it);
}

void EventLoop::RunTimers() {
  while (!timers_.empty() && timers_.begin()->first.first <= Now().ns()) {
    Function fn = std::move(timers_.begin()->second);
    timer_times_.erase(timers_.begin()->first.second);
    timers_.erase(timers_.begin());
    fn();
  }
}

}  // namespace farandole
