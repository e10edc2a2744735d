#include "base/loop_lending.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace farandole {
namespace {

TimePoint Now() { return Clock::Monotonic().Now(); }

}  // namespace

LoopLending::LoopLending()
    : wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      rise_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {}

void LoopLending::Wake() {
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof one);
}

void LoopLending::ClearWake() {
  uint64_t count;
  absl::MutexLock lock(&mutex_);
  // Both threads may be waiting, and both are to hear of the end.
  if (stopped_) return;
  (void)!read(wake_.get(), &count, sizeof count);
}

void LoopLending::RiseAt(TimePoint when) {
  if (rise_at_ <= when) return;
  rise_at_ = when;
  // A time that is over makes it readable at once; 0 would unset it.
  const int64_t ns = std::max<int64_t>(when.ns(), 1);
  itimerspec at{};
  at.it_value = {ns / 1000000000, ns % 1000000000};
  timerfd_settime(rise_.get(), TFD_TIMER_ABSTIME, &at, nullptr);
}

bool LoopLending::AnyoneBusy() const { return own_ == Own::kBusy || (state_ == State::kLent && !borrower_waits_); }

void LoopLending::CallBorrower(bool* wake) {
  if (state_ != State::kLent) return;
  borrower_called_ = true;
  *wake |= borrower_waits_;
}

bool LoopLending::TakeOrRest() {
  if (state_ == State::kReturned && take_at_ <= Now()) state_ = State::kOwn;
  own_ = state_ == State::kOwn || stopped_ ? Own::kBusy : Own::kRests;
  if (own_ == Own::kRests && state_ == State::kReturned) RiseAt(take_at_);
  return own_ == Own::kBusy;
}

bool LoopLending::AwaitTurn() {
  bool wake = false;
  bool mine, stopped;
  {
    absl::MutexLock lock(&mutex_);
    mine = TakeOrRest();
    stopped = stopped_;
    // What this thread has just handled may be what the borrower waits for; and it may have cleared a wake-up that was
    // meant for the borrower.
    CallBorrower(&wake);
  }
  if (wake) Wake();
  while (!mine) {
    pollfd rise{rise_.get(), POLLIN, 0};
    poll(&rise, 1, -1);
    uint64_t count;
    absl::MutexLock lock(&mutex_);
    (void)!read(rise_.get(), &count, sizeof count);
    rise_at_ = TimePoint::Infinite();
    mine = TakeOrRest();
    stopped = stopped_;
  }
  return !stopped;
}

bool LoopLending::Borrow() {
  absl::MutexLock lock(&mutex_);
  if (state_ == State::kLent) refused_ = true;
  if (state_ == State::kLent || stopped_) return false;
  state_ = State::kLent;
  borrower_ = std::this_thread::get_id();
  borrower_waits_ = false;
  borrower_called_ = false;
  return true;
}

bool LoopLending::GiveBack(TimePoint timer) {
  bool wake = false, waits = false;
  {
    absl::MutexLock lock(&mutex_);
    const bool needed = std::exchange(refused_, false) || !posted_.empty();
    if (own_ == Own::kRests) {
      state_ = State::kReturned;
      take_at_ = needed ? TimePoint() : std::min(timer, Now().PlusMs(kLingerMs));
      RiseAt(take_at_);
    } else {
      state_ = State::kOwn;
      wake = own_ == Own::kWaits && (!posted_.empty() || timer < own_waits_until_);
      waits = !wake;
    }
  }
  if (wake) Wake();
  return waits;
}

bool LoopLending::BeginWait(Runner runner, TimePoint until) {
  absl::MutexLock lock(&mutex_);
  if (!posted_.empty() || stopped_) return false;
  if (runner == Runner::kOwn) {
    own_ = Own::kWaits;
    own_waits_until_ = until;
    return true;
  }
  if (borrower_called_) return false;
  borrower_waits_ = true;
  borrower_waits_until_ = until;
  return true;
}

void LoopLending::EndWait(Runner runner) {
  absl::MutexLock lock(&mutex_);
  if (runner == Runner::kOwn) {
    own_ = Own::kBusy;
  } else {
    borrower_waits_ = false;
    borrower_called_ = false;
  }
}

std::vector<LoopLending::Function> LoopLending::TakePosted() {
  std::vector<Function> posted;
  absl::MutexLock lock(&mutex_);
  posted.swap(posted_);
  return posted;
}

void LoopLending::Post(Function fn) {
  {
    absl::MutexLock lock(&mutex_);
    if (stopped_) return;
    const bool first = posted_.empty();
    posted_.push_back(std::move(fn));
    if (!first || AnyoneBusy()) return;
    if (state_ == State::kReturned) {
      take_at_ = TimePoint();
      return RiseAt(take_at_);
    }
  }
  Wake();
}

bool LoopLending::idle() const {
  absl::MutexLock lock(&mutex_);
  return posted_.empty() && !stopped_;
}

void LoopLending::WakeBorrower() {
  bool wake = false;
  {
    absl::MutexLock lock(&mutex_);
    if (borrower_called_ || borrower_ == std::this_thread::get_id()) return;
    CallBorrower(&wake);
  }
  if (wake) Wake();
}

void LoopLending::WakeForTimer(TimePoint timer) {
  {
    absl::MutexLock lock(&mutex_);
    switch (state_) {
      case State::kOwn:
        if (own_ != Own::kWaits || own_waits_until_ <= timer) return;
        break;
      case State::kLent:
        if (!borrower_waits_ || borrower_waits_until_ <= timer) return;
        break;
      case State::kReturned:
        take_at_ = std::min(take_at_, timer);
        return RiseAt(take_at_);
    }
  }
  Wake();
}

void LoopLending::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
    RiseAt(TimePoint());
  }
  Wake();
}

bool LoopLending::stopped() const {
  absl::MutexLock lock(&mutex_);
  return stopped_;
}

}  // namespace farandole
