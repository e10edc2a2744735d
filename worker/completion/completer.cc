#include "worker/completion/completer.h"

#include <csignal>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole::worker::completion {

Completer::~Completer() { Stop(); }

absl::Status Completer::Start() {
  absl::MutexLock lock(&mutex_);
  if (stopping_) return absl::FailedPreconditionError("the library has been shut down");
  if (started_) return absl::OkStatus();
  // Signals belong to the script's threads.
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  const int error = pthread_create(&thread_, nullptr, Main, this);
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  if (error != 0) {
    return absl::UnavailableError(absl::StrCat("no thread can be made for callbacks: ", std::strerror(error),
                                               "; look at the limits of processes and memory (ulimit -a)"));
  }
  started_ = true;
  return absl::OkStatus();
}

void Completer::Post(Call call) {
  {
    absl::MutexLock lock(&mutex_);
    queue_.push_back(std::move(call));
  }
  changed_.Advance();
}

bool Completer::Drain(int timeout_ms) {
  for (bool last = timeout_ms == 0;; last = true) {
    const uint32_t seen = drained_.Value();
    {
      absl::MutexLock lock(&mutex_);
      if (queue_.empty() && !running_) return true;
    }
    if (last || !drained_.WaitPast(seen, timeout_ms)) return false;
  }
}

void Completer::Stop() {
  pthread_t thread;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    if (!std::exchange(started_, false)) return;
    thread = thread_;
  }
  changed_.Advance();
  pthread_join(thread, nullptr);
}

void* Completer::Main(void* self) {
  pthread_setname_np(pthread_self(), "farandole-done");
  static_cast<Completer*>(self)->Run();
  return nullptr;
}

void Completer::Run() {
  for (;;) {
    const uint32_t seen = changed_.Value();
    Call call;
    bool stops;
    {
      absl::MutexLock lock(&mutex_);
      stops = stopping_ && queue_.empty();
      if (!queue_.empty()) {
        call = std::move(queue_.front());
        queue_.pop_front();
      }
      running_ = call != nullptr;
    }
    if (call != nullptr) {
      call();
    } else if (stops) {
      return;
    } else {
      drained_.Advance();
      changed_.WaitPast(seen, -1);
    }
  }
}

}  // namespace farandole::worker::completion
