#include "worker/nccl/watch.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/status/statusor.h"
#include "base/start_thread.h"

namespace farandole::worker::nccl {
namespace {

// Short work ends while the thread looks without a pause; a look is a query of an event, about a microsecond.
constexpr int kLooksAtOnce = 20;
constexpr std::chrono::microseconds kPause(20);
// Nobody waits so urgently for what lasts this long, and each look takes time of a CPU.
constexpr int kShortPauses = 500;
constexpr std::chrono::microseconds kLongPause(100);

}  // namespace

Watch::~Watch() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  Wake();
  if (thread_.joinable()) thread_.join();
}

absl::Status Watch::Add(Client* client) {
  absl::MutexLock lock(&mutex_);
  if (!started_) {
    absl::StatusOr<std::thread> thread = StartThread("farandole-gpu", [this] { Run(); });
    if (!thread.ok()) return thread.status();
    thread_ = *std::move(thread);
    started_ = true;
  }
  clients_.push_back(client);
  return absl::OkStatus();
}

void Watch::Remove(Client* client) {
  absl::MutexLock lock(&mutex_);
  clients_.erase(std::remove(clients_.begin(), clients_.end(), client), clients_.end());
  // Another one has its place now, which the round that is under way would pass over.
  Wake();
  const auto let_go = [this, client]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return looked_at_ != client; };
  mutex_.Await(absl::Condition(&let_go));
}

void Watch::Run() {
  int looks = 0;
  for (;;) {
    const uint32_t seen = changed_.Value();
    if (const Seen what = LookAtAll(); what != Seen::kNothing) {
      looks = what == Seen::kEnded ? 0 : looks + 1;
      if (looks > kLooksAtOnce) std::this_thread::sleep_for(looks > kShortPauses ? kLongPause : kPause);
      continue;
    }
    looks = 0;
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) return;
    }
    changed_.WaitPast(seen, -1);
  }
}

Watch::Seen Watch::LookAtAll() {
  Seen most = Seen::kNothing;
  absl::MutexLock lock(&mutex_);
  for (size_t i = 0; i < clients_.size(); ++i) {
    Client* const client = looked_at_ = clients_[i];
    mutex_.Unlock();
    most = std::max(most, client->Look());
    mutex_.Lock();
    looked_at_ = nullptr;
  }
  return most;
}

}  // namespace farandole::worker::nccl
