#include "worker/completion/callback_owner.h"

namespace farandole::worker::completion {
namespace {

// A callback calls no other callback, so one is enough for each thread.
thread_local const CallbackOwner* owner_of_call = nullptr;
thread_local bool in_call = false;

}  // namespace

CallbackOwner::Call::Call(CallbackOwner* owner) : owner_(owner), entered_(owner == nullptr || owner->Enter()) {
  if (!entered_) return;
  owner_of_call = owner;
  in_call = true;
}

CallbackOwner::Call::~Call() {
  if (!entered_) return;
  in_call = false;
  owner_of_call = nullptr;
  if (owner_ != nullptr) owner_->Leave();
}

bool CallbackOwner::InCall() { return in_call; }

bool CallbackOwner::withdrawn() const {
  absl::MutexLock lock(&mutex_);
  return withdrawn_;
}

bool CallbackOwner::Enter() {
  absl::MutexLock lock(&mutex_);
  if (!withdrawn_) ++running_;
  return !withdrawn_;
}

void CallbackOwner::Leave() {
  bool last;
  {
    absl::MutexLock lock(&mutex_);
    last = --running_ == 0 && withdrawn_;
  }
  if (last) left_.Advance();
}

bool CallbackOwner::Withdraw(int timeout_ms) {
  const uint32_t seen = left_.Value();
  {
    absl::MutexLock lock(&mutex_);
    withdrawn_ = true;
    if (running_ == 0) return true;
  }
  if (owner_of_call != this && timeout_ms != 0) left_.WaitPast(seen, timeout_ms);
  absl::MutexLock lock(&mutex_);
  return running_ == 0;
}

}  // namespace farandole::worker::completion
