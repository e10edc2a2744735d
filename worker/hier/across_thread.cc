#include "worker/hier/across_thread.h"

#include <utility>

#include "absl/status/statusor.h"
#include "base/start_thread.h"

namespace farandole::worker::hier {

AcrossThread::~AcrossThread() {
  if (!thread_.joinable()) return;
  {
    absl::MutexLock lock(&mutex_);
    ending_ = true;
  }
  thread_.join();
}

absl::Status AcrossThread::Begin(Call call) {
  if (!thread_.joinable()) {
    absl::StatusOr<std::thread> thread = StartThread("farandole-hier", [this] { Run(); });
    if (!thread.ok()) return thread.status();
    thread_ = *std::move(thread);
  }
  absl::MutexLock lock(&mutex_);
  call_ = std::move(call);
  under_way_ = true;
  return absl::OkStatus();
}

absl::Status AcrossThread::Await() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &AcrossThread::IsDone));
  return std::exchange(status_, absl::OkStatus());
}

void AcrossThread::Run() {
  for (;;) {
    Call call;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &AcrossThread::HasWork));
      if (call_ == nullptr) return;
      call = std::exchange(call_, nullptr);
    }
    const absl::Status status = call();
    absl::MutexLock lock(&mutex_);
    status_ = status;
    under_way_ = false;
  }
}

}  // namespace farandole::worker::hier
