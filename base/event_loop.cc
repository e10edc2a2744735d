#include "base/event_loop.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

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

EventLoop::EventLoop(std::string name)
    : name_(std::move(name)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      rise_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!epoll_.valid() || !wake_.valid() || !rise_.valid()) {
    made_ = absl::ResourceExhaustedError(
        absl::StrCat("cannot make the descriptors of the thread \"", name_, "\": ", std::strerror(errno),
                     "; look at the limit of open files (ulimit -n), and at what this process has open"));
    return;
  }
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = wake_.get();
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event);
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

void EventLoop::LetGo() {
  std::vector<Function> afterwards;
  afterwards.swap(afterwards_);
  holder_.store(std::thread::id(), std::memory_order_relaxed);
  run_mutex_.Unlock();
  for (Function& fn : afterwards) fn();
}

void EventLoop::Run() {
  if (!made_.ok()) {
    const std::string line = absl::StrCat(made_.message(), "\n");
    (void)!write(STDERR_FILENO, line.data(), line.size());
    std::abort();
  }
  for (;;) {
    RestWhileDriven();
    {
      absl::MutexLock lock(&mutex_);
      if (stopped_) return;
    }
    Turn(/*own=*/true, /*wait=*/true, TimePoint::Infinite());
  }
}

bool EventLoop::Turn(bool own, bool wait, TimePoint until) {
  constexpr int kEvents = 64;
  epoll_event events[kEvents];
  int wait_ms = 0;
  if (wait) {
    Hold();
    wait_ms = WaitMs(own, until);
    LetGo();
  }
  const int n = epoll_wait(epoll_.get(), events, kEvents, wait_ms);
  if (wait) {
    absl::MutexLock lock(&mutex_);
    ++active_;
  }
  Hold();
  if (own) own_waits_until_ns_ = 0;
  HandleEvents(events, n);
  RunTimers();
  RunPosted();
  LetGo();
  return n > 0;
}

void EventLoop::HandleEvents(const epoll_event* events, int count) {
  for (int i = 0; i < count; ++i) {
    const int fd = events[i].data.fd;
    if (fd == wake_.get()) {
      uint64_t value;
      (void)!read(wake_.get(), &value, sizeof value);
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
  {
    absl::MutexLock lock(&mutex_);
    if (driven_) refused_ = true;
    if (driven_ || stopped_) return false;
    driven_ = true;
    ++drives_;
    ++active_;
  }
  bool stopped = false;
  int64_t look_until_ns = look_ns > 0 ? Now().ns() + look_ns : 0;
  const bool bounded = until != TimePoint::Infinite();
  while (!done() && !stopped && !(bounded && until <= Now())) {
    const bool look = look_ns > 0 && Now().ns() < look_until_ns;
    if (Turn(/*own=*/false, !look, until) && look_ns > 0) look_until_ns = Now().ns() + look_ns;
    absl::MutexLock lock(&mutex_);
    stopped = stopped_;
  }
  EndDrive();
  return !stopped;
}

void EventLoop::EndDrive() {
  // From here on the loop's own thread looks for timers, which the driver may have set while that one waited.
  Hold();
  waits_until_ns_ = own_waits_until_ns_;
  WakeForTimer();
  LetGo();
  bool rise, wake;
  {
    absl::MutexLock lock(&mutex_);
    driven_ = false;
    --active_;
    const bool left = !posted_.empty() && active_ == 0;
    rise = resting_ && (refused_ || left);
    wake = !resting_ && left;
    refused_ = false;
  }
  if (rise) Rise();
  if (wake) Wake();
}

void EventLoop::RestWhileDriven() {
  constexpr int kSliceMs = 10;
  uint64_t seen;
  {
    absl::MutexLock lock(&mutex_);
    if (!driven_ || stopped_) return;
    seen = drives_;
    resting_ = true;
    --active_;
  }
  // What this thread has just handled may be what the driver waits for.
  Wake();
  for (;;) {
    pollfd rise{rise_.get(), POLLIN, 0};
    const bool called = poll(&rise, 1, kSliceMs) > 0;
    absl::MutexLock lock(&mutex_);
    if (called || stopped_ || (!driven_ && drives_ == seen)) {
      uint64_t value;
      (void)!read(rise_.get(), &value, sizeof value);
      resting_ = false;
      ++active_;
      return;
    }
    seen = drives_;
  }
}

void EventLoop::Wake() {
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof one);
}

void EventLoop::Rise() {
  const uint64_t one = 1;
  (void)!write(rise_.get(), &one, sizeof one);
}

void EventLoop::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
  }
  Wake();
  Rise();
}

void EventLoop::Join() {
  Stop();
  if (thread_.joinable()) thread_.join();
  std::vector<Function> dropped;
  absl::MutexLock lock(&mutex_);
  dropped.swap(posted_);
}

void EventLoop::Post(Function fn) {
  bool wake, rise;
  {
    absl::MutexLock lock(&mutex_);
    if (stopped_) return;
    // Otherwise somebody looks at the queue before waiting again.
    wake = posted_.empty() && active_ == 0;
    rise = resting_ && !driven_;
    posted_.push_back(std::move(fn));
  }
  if (wake) rise ? Rise() : Wake();
}

void EventLoop::RunOrPost(Function fn) {
  // Not from within a function of the loop, where others may have to run first and the lock is held.
  if (InLoop() || !run_mutex_.TryLock()) return Post(std::move(fn));
  holder_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  bool idle;
  {
    absl::MutexLock lock(&mutex_);
    idle = posted_.empty() && !stopped_;
  }
  if (idle) {
    fn();
    WakeForTimer();
  }
  LetGo();
  if (!idle) Post(std::move(fn));
}

void EventLoop::RunHere(const Function& fn) {
  Hold();
  fn();
  WakeForTimer();
  LetGo();
}

void EventLoop::WakeForTimer() {
  if (!timers_.empty() && timers_.begin()->first.first < waits_until_ns_) Wake();
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

void EventLoop::RunPosted() {
  std::vector<Function> batch;
  {
    absl::MutexLock lock(&mutex_);
    batch.swap(posted_);
  }
  for (Function& fn : batch) fn();
}

void EventLoop::RunTimers() {
  while (!timers_.empty() && timers_.begin()->first.first <= Now().ns()) {
    Function fn = std::move(timers_.begin()->second);
    timer_times_.erase(timers_.begin()->first.second);
    timers_.erase(timers_.begin());
    fn();
  }
}

int EventLoop::WaitMs(bool own, TimePoint until) {
  waits_until_ns_ = 0;
  {
    absl::MutexLock lock(&mutex_);
    --active_;
    if (!posted_.empty()) return 0;
  }
  waits_until_ns_ = until.ns();
  if (!timers_.empty()) waits_until_ns_ = std::min(waits_until_ns_, timers_.begin()->first.first);
  if (own) own_waits_until_ns_ = waits_until_ns_;
  if (waits_until_ns_ == TimePoint::Infinite().ns()) return -1;
  const int64_t ns = waits_until_ns_ - Now().ns();
  if (ns <= 0) return 0;
  return static_cast<int>(std::min<int64_t>((ns + 999999) / 1000000, INT_MAX));
}

}  // namespace farandole
