#include "worker/shm/shm_sync.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

namespace farandole::worker::shm {
namespace {

// Looks before the clock is read for the first time: the usual wait of ranks that run side by side.
constexpr int kFirstLooks = 50;
constexpr int kFirstLooksCrowded = 10;
// Then the CPU is offered to others between looks: the peer may be waiting for this very one. Costs a third of a
// microsecond where nobody wants it; with other work on the host it made a phase ten times faster.
constexpr int kLooksPerYield = 20;
// Longer than a wake-up of a parked peer (3 to 50 us), shorter than anybody misses of a CPU.
constexpr int64_t kSpinNs = 50 * 1000;
// The CPU was away for longer than a peer that shares it needs for its part; a time slice is 3 ms or more.
constexpr int64_t kTakenNs = 300 * 1000;
constexpr int64_t kTakenCrowdedNs = 2000 * 1000;
// How often a crowded rank offers its CPU to the others before it parks.
constexpr int kYields = 8;
// An Abort or Withdraw whose wake-up comes just before the wait is seen after one slice.
constexpr int64_t kSliceNs = 20 * 1000 * 1000;
// In an arrival: this rank is about to take it back if not all have entered.
constexpr uint64_t kLeaving = uint64_t{1} << 63;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Without the private flag: the word is shared with other processes.
void FutexWait(void* word, uint32_t seen, int64_t ns) {
  const timespec timeout{static_cast<time_t>(ns / 1000000000), static_cast<long>(ns % 1000000000)};
  syscall(SYS_futex, word, FUTEX_WAIT, seen, &timeout, nullptr, 0);
}

void FutexWakeAll(void* word) { syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

}  // namespace

ShmSync::ShmSync(const ShmSegment* segment, int position, double cpus, uint32_t op_timeout_ms)
    : segment_(segment),
      position_(position),
      ranks_(segment->sizes().ranks),
      crowded_(cpus < segment->sizes().ranks),
      op_timeout_ms_(op_timeout_ms),
      contention_(crowded_ ? kTakenCrowdedNs : kTakenNs) {}

void ShmSync::BeginOp(uint32_t mark, uint32_t check) {
  mark_ = mark;
  check_ = check;
  timed_ = false;
  entering_ = true;
  uint32_t old = withdrawn_mark_.load(std::memory_order_relaxed);
  // Of an instance that is over.
  if (old != 0 && old != mark) withdrawn_mark_.compare_exchange_strong(old, 0);
}

ShmSync::Result ShmSync::Step() {
  Own().check = check_;
  ++phase_;
  arrival_ = uint64_t{mark_} << 32 | phase_;
  if (aborted_.load(std::memory_order_relaxed)) return {Outcome::kAborted, -1};
  Publish();
  Result result = WaitForAll();
  if (result.outcome == Outcome::kOk) result = Verify();
  entering_ = false;
  return result;
}

// The release makes slot, chunk and buffer visible to whoever acquires the arrival. The fence orders the store before
// the look at `parked`; a waiter increments `parked` before the kernel compares the phase, so one of both sees the
// other and no wake-up is lost. (One may be if a withdrawn instance stood there, whose phase was the same: the waiter
// looks again after a slice.)
void ShmSync::Publish() {
  ShmSlot& own = Slot(position_, phase_);
  own.arrival.store(arrival_, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (crowded_) return PublishCrowded();
  if (own.parked.load(std::memory_order_relaxed) != 0) FutexWakeAll(&own.arrival);
}

// Whoever finds that all have arrived opens the phase; the fence between own arrival and look sees to it that one of
// the last does. It has acquired what all released, and hands it on with `completed`.
void ShmSync::PublishCrowded() {
  for (int i = 1; i < ranks_; ++i) {
    if (!Arrived((position_ + i) % ranks_)) return;
  }
  if (!AllArrived()) return;
  ShmControl& common = segment_->control(0);
  common.completed.store(phase_, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (common.waiting.load(std::memory_order_relaxed) != 0) FutexWakeAll(&common.completed);
}

// A look at one rank after the other finds all arrived although one has withdrawn before another came. A second look
// that finds the same proves that they were all there when it began, and then nobody withdraws any more: see Retract.
bool ShmSync::AllArrived() const {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (!Arrived(rank)) return false;
  }
  return true;
}

ShmSync::Result ShmSync::WaitForAll() {
  if (crowded_) return WaitCrowded();
  do {
    for (int rank = 0; rank < ranks_; ++rank) {
      if (rank == position_) continue;
      const Result result = WaitFor(rank);
      if (result.outcome != Outcome::kOk) return result;
    }
  } while (entering_ && !AllArrived());
  return {};
}

int64_t ShmSync::GiveWay(int64_t now_ns) {
  sched_yield();
  const int64_t after_ns = Clock::Monotonic().Now().ns();
  contention_.CameBack(now_ns, after_ns);
  return after_ns;
}

template <typename Done>
bool ShmSync::Spin(Done done) {
  const int first_looks = crowded_ ? kFirstLooksCrowded : kFirstLooks;
  for (int i = 0; i < first_looks; ++i) {
    if (done()) return true;
    Pause();
  }
  int64_t now_ns = Clock::Monotonic().Now().ns();
  const int64_t end_ns = now_ns + kSpinNs;
  const int looks = crowded_ ? 1 : kLooksPerYield;
  for (int yields = 0; !contention_.Expected(now_ns) && !aborted_.load(std::memory_order_relaxed); ++yields) {
    if (crowded_ ? yields == kYields : now_ns >= end_ns) break;
    now_ns = GiveWay(now_ns);
    for (int i = 0; i < looks; ++i) {
      if (done()) return true;
      Pause();
    }
  }
  return false;
}

ShmSync::Outcome ShmSync::Park(void* word, uint32_t seen) {
  if (aborted_.load(std::memory_order_acquire)) return Outcome::kAborted;
  const TimePoint now = Clock::Monotonic().Now();
  if (!timed_) {
    timed_ = true;
    deadline_ = now.PlusMs(op_timeout_ms_);
  }
  gone_ = GoneRank();
  if (gone_ >= 0) return Outcome::kGone;
  if (deadline_ <= now) return Outcome::kDeadline;
  if (entering_ && withdrawn_mark_.load(std::memory_order_acquire) == mark_ && Retract()) return Outcome::kWithdrawn;
  FutexWait(word, seen, std::min(kSliceNs, deadline_.ns() - now.ns()));
  return Outcome::kOk;
}

ShmSync::Result ShmSync::WaitFor(int rank) {
  ShmSlot& slot = Slot(rank, phase_);
  if (Spin([&] { return Arrived(rank); })) return {};
  slot.parked.fetch_add(1, std::memory_order_seq_cst);
  Result result;
  for (;;) {
    const uint64_t seen = Arrival(rank);
    if (seen == arrival_) break;
    result.outcome = Park(&slot.arrival, static_cast<uint32_t>(seen));
    if (result.outcome != Outcome::kOk) {
      result.culprit = result.outcome == Outcome::kGone ? gone_ : rank;
      break;
    }
  }
  slot.parked.fetch_sub(1, std::memory_order_relaxed);
  return result;
}

ShmSync::Result ShmSync::WaitCrowded() {
  ShmControl& common = segment_->control(0);
  const auto completed = [&] { return common.completed.load(std::memory_order_acquire) == phase_; };
  if (Spin(completed)) return {};
  common.waiting.fetch_add(1, std::memory_order_seq_cst);
  Result result;
  // Nobody can complete the next phase without this rank, so the word is the phase or the one before.
  while (result.outcome == Outcome::kOk && !completed()) result.outcome = Park(&common.completed, phase_ - 1);
  common.waiting.fetch_sub(1, std::memory_order_relaxed);
  for (int rank = 0; result.outcome != Outcome::kOk && rank < ranks_; ++rank) {
    if (!Arrived(rank)) result.culprit = rank;
  }
  if (result.outcome == Outcome::kGone) result.culprit = gone_;
  return result;
}

ShmSync::Result ShmSync::Verify() const {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (Slot(rank, phase_).check != check_) return {Outcome::kMismatch, rank};
  }
  return {};
}

int ShmSync::GoneRank() const {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (segment_->control(rank).gone.load(std::memory_order_acquire) != 0 && !Arrived(rank)) return rank;
  }
  return -1;
}

int32_t ShmSync::BlamedBy(int rank) const {
  return static_cast<int32_t>(segment_->control(rank).gone.load(std::memory_order_acquire)) - 2;
}

// Ranks that withdraw at the same time must not go apart: either all of them stay, or nobody has passed the phase. So
// each says first that it is leaving, which counts as not arrived for who wants to pass, but as entered for who wants
// to leave; then it looks. If all have entered, all stay: nobody can have seen one missing. If one is missing, it can
// pass only later, when it will find this rank gone.
bool ShmSync::Retract() {
  ShmSlot& own = Slot(position_, phase_);
  own.arrival.store(arrival_ | kLeaving, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  bool all_entered = true;
  for (int rank = 0; rank < ranks_; ++rank) all_entered = all_entered && (Arrival(rank) & ~kLeaving) == arrival_;
  if (all_entered) {
    Publish();
    return false;
  }
  own.arrival.store(0, std::memory_order_release);
  --phase_;
  withdrawn_mark_.store(0, std::memory_order_relaxed);
  return true;
}

void ShmSync::Withdraw(uint32_t mark) {
  withdrawn_mark_.store(mark, std::memory_order_release);
  WakeAll();
}

void ShmSync::Abort(int32_t blamed) {
  uint32_t here = 0;
  segment_->control(position_).gone.compare_exchange_strong(here, static_cast<uint32_t>(blamed + 2));
  aborted_.store(true, std::memory_order_release);
  WakeAll();
}

// This process may be parked at any of these, and so may others that an Abort ends; else they look once more.
void ShmSync::WakeAll() {
  for (int rank = 0; rank < ranks_; ++rank) {
    for (ShmSlot& slot : segment_->control(rank).slots) FutexWakeAll(&slot.arrival);
  }
  FutexWakeAll(&segment_->control(0).completed);
}

}  // namespace farandole::worker::shm
