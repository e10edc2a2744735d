#include "base/event_loop.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <utility>

namespace farandole {
namespace {

// Only a lack of descriptors makes these fail; nothing of ours works without them.
int OrAbort(int fd) {
  if (fd < 0) std::abort();
  return fd;
}

}  // namespace

EventLoop::EventLoop(std::string name)
    : name_(std::move(name)),
      epoll_(OrAbort(epoll_create1(EPOLL_CLOEXEC))),
      wake_(OrAbort(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = wake_.get();
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event);
}

EventLoop::~EventLoop() { Join(); }

void EventLoop::Start() {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), name_.substr(0, 15).c_str());
    Run();
  });
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

void EventLoop::Run() {
  {
    absl::MutexLock lock(&mutex_);
    loop_thread_ = std::this_thread::get_id();
  }
  constexpr int kEvents = 64;
  epoll_event events[kEvents];
  for (;;) {
    {
      absl::MutexLock lock(&mutex_);
      if (stopped_) return;
    }
    const int n = epoll_wait(epoll_.get(), events, kEvents, WaitMs());
    for (int i = 0; i < n; ++i) {
      const int fd = events[i].data.fd;
      if (fd == wake_.get()) {
        uint64_t count;
        (void)!read(wake_.get(), &count, sizeof count);
        continue;
      }
      // An earlier handler of this round may have removed it.
      auto it = handlers_.find(fd);
      if (it == handlers_.end()) continue;
      std::shared_ptr<FdHandler> handler = it->second;
      (*handler)(events[i].events);
    }
    RunTimers();
    RunPosted();
  }
}

void EventLoop::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
  }
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof one);
}

void EventLoop::Join() {
  Stop();
  if (thread_.joinable()) thread_.join();
  std::vector<Function> dropped;
  absl::MutexLock lock(&mutex_);
  dropped.swap(posted_);
}

void EventLoop::Post(Function fn) {
  bool wake;
  {
    absl::MutexLock lock(&mutex_);
    if (stopped_) return;
    wake = posted_.empty();
    posted_.push_back(std::move(fn));
  }
  if (!wake) return;
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof one);
}

bool EventLoop::InLoop() const {
  absl::MutexLock lock(const_cast<absl::Mutex*>(&mutex_));
  return loop_thread_ == std::this_thread::get_id();
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

int EventLoop::WaitMs() const {
  {
    absl::MutexLock lock(const_cast<absl::Mutex*>(&mutex_));
    if (!posted_.empty()) return 0;
  }
  if (timers_.empty()) return -1;
  const int64_t ns = timers_.begin()->first.first - Now().ns();
  if (ns <= 0) return 0;
  return static_cast<int>(std::min<int64_t>((ns + 999999) / 1000000, INT_MAX));
}

}  // namespace farandole
