#ifndef FARANDOLE_WORKER_SHM_SHM_SYNC_H_
#define FARANDOLE_WORKER_SHM_SHM_SYNC_H_

#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "worker/os/contention.h"
#include "worker/shm/shm_segment.h"

namespace farandole::worker::shm {

// The steps in which ranks of one host go through collectives together. A phase: each rank fills its slot, publishes
// it, and waits until all have published theirs. Phases are numbered the same on all ranks.
//
// The first phase of a collective is its entry, and can be taken back: some ranks may stand in phase k of an instance
// that others never enter, until they are told to withdraw. Who has done that goes through phase k with the next
// instance. So a slot names phase and instance, and to a rank in another instance its peer has not arrived (D1).
//
// A rank that has passed phase k knows that all others have published k and hence are done with whatever they read
// before that: slots and chunks that alternate between two places may be overwritten two phases later.
//
// Waits spin for a moment, then park in the kernel; at once if a CPU that was given away between looks came back late
// shortly before, since something else on the host wants it and who has slept gets it sooner. Where ranks have a CPU
// each, a waiter looks at its peers' slots one by one; where they have not, all wait for the last one at a common
// counter, which spares the others a wake-up for every peer.
//
// One thread calls everything but Abort.
class ShmSync {
 public:
  enum class Outcome { kOk, kAborted, kDeadline, kMismatch, kWithdrawn, kGone };

  struct Result {
    Outcome outcome = Outcome::kOk;
    // kDeadline: a rank that has not arrived; kMismatch: one that is at another call; kGone: one that will never arrive
    int culprit = -1;
  };

  // `cpus`: what the ranks may use together; all ranks must be given the same. The segment must outlive this.
  ShmSync(const ShmSegment* segment, int position, double cpus, uint32_t op_timeout_ms);

  // A new collective. `mark`, not 0, stands for the instance; below 2^31. `check` stands for what is asked and is
  // compared with what the others say in each phase.
  void BeginOp(uint32_t mark, uint32_t check);

  // The own slot of the coming phase; fill in the place and the payload.
  ShmSlot& Own() const { return Slot(position_, phase_ + 1); }
  // Publishes Own() and waits for all.
  Result Step();
  // A rank's slot of the phase that Step has just passed.
  const ShmSlot& Passed(int rank) const { return Slot(rank, phase_); }

  // Any thread. The first Step of the collective with this mark, which runs or is the next to begin, ends with
  // kWithdrawn, unless all have entered it: then it goes on at all of them.
  void Withdraw(uint32_t mark);

  // Any thread: ends the running and every later Step with kAborted, and those of the others, where they need this
  // rank, with kGone. `blamed`, a rank of the job or -1, is for them; that of the first call counts.
  void Abort(int32_t blamed);
  // Whom a rank blames that is gone; -1: nobody.
  int32_t BlamedBy(int rank) const;

  // True if ranks have to share CPUs, so that every wait is likely to cost a switch.
  bool crowded() const { return crowded_; }

 private:
  ShmSlot& Slot(int rank, uint32_t phase) const { return segment_->control(rank).slots[phase & 1]; }
  uint64_t Arrival(int rank) const { return Slot(rank, phase_).arrival.load(std::memory_order_acquire); }
  bool Arrived(int rank) const { return Arrival(rank) == arrival_; }
  bool AllArrived() const;
  void Publish();
  void PublishCrowded();
  Result WaitForAll();
  Result WaitFor(int rank);
  Result WaitCrowded();
  Result Verify() const;
  // A rank that is gone and has not arrived; -1: there is none.
  int GoneRank() const;
  // Parks until `word` is no longer `seen`, at most for a slice. kOk: look again.
  Outcome Park(void* word, uint32_t seen);
  // Takes the arrival back, unless all have entered.
  bool Retract();
  void WakeAll();
  template <typename Done>
  bool Spin(Done done);
  // Gives the CPU away, and notices whether it comes back late. Returns the time after it.
  int64_t GiveWay(int64_t now_ns);

  const ShmSegment* segment_;
  const int position_;
  const int ranks_;
  const bool crowded_;
  const uint32_t op_timeout_ms_;
  uint32_t phase_ = 0;
  uint32_t mark_ = 0;
  uint32_t check_ = 0;
  uint64_t arrival_ = 0;       // what slots say of this phase
  bool entering_ = false;      // in the first phase of a collective
  int gone_ = -1;              // what Park has found
  os::Contention contention_;  // over the own CPU
  bool timed_ = false;         // whether deadline_ is set for this op; the clock is read only when a wait is long
  TimePoint deadline_;
  std::atomic<uint32_t> withdrawn_mark_{0};
  std::atomic<bool> aborted_{false};
};

}  // namespace farandole::worker::shm

#endif  // FARANDOLE_WORKER_SHM_SHM_SYNC_H_
