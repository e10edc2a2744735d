#include "base/completion_thread.h"

#include <pthread.h>

#include <csignal>
#include <utility>

namespace farandole {

CompletionThread::CompletionThread(std::string name, std::unique_ptr<grpc::CompletionQueue> queue)
    : name_(std::move(name)), queue_(std::move(queue)) {
  // Debian's abseil looks for cycles of locks at every lock, gRPC's own included: a tenth of a controller's time.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  thread_ = std::thread([this] { Run(); });
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

CompletionThread::~CompletionThread() {
  {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](int* holds) { return *holds == 0; }, &holds_));
  }
  queue_->Shutdown();
  thread_.join();
}

void CompletionThread::Hold() {
  absl::MutexLock lock(&mutex_);
  ++holds_;
}

void CompletionThread::Release() {
  absl::MutexLock lock(&mutex_);
  --holds_;
}

void CompletionThread::Run() {
  pthread_setname_np(pthread_self(), name_.substr(0, 15).c_str());
  void* tag;
  bool ok;
  while (queue_->Next(&tag, &ok)) static_cast<Tag*>(tag)->End(ok);
}

}  // namespace farandole
