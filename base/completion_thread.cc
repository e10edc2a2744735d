#include "base/completion_thread.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/start_thread.h"

namespace farandole {

CompletionThread::CompletionThread(std::string name, std::unique_ptr<grpc::CompletionQueue> queue)
    : name_(std::move(name)), queue_(std::move(queue)) {
  // Debian's abseil looks for cycles of locks at every lock, gRPC's own included: a tenth of a controller's time.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  absl::StatusOr<std::thread> thread = StartThread(name_, [this] { Run(); });
  // In programs of ours alone, which can do nothing without it.
  if (!thread.ok()) {
    const std::string line = absl::StrCat(thread.status().message(), "\n");
    (void)!write(STDERR_FILENO, line.data(), line.size());
    std::abort();
  }
  thread_ = *std::move(thread);
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
  void* tag;
  bool ok;
  while (queue_->Next(&tag, &ok)) static_cast<Tag*>(tag)->End(ok);
}

}  // namespace farandole
