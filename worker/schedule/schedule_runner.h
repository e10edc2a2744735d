#ifndef FARANDOLE_WORKER_SCHEDULE_SCHEDULE_RUNNER_H_
#define FARANDOLE_WORKER_SCHEDULE_SCHEDULE_RUNNER_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "proto/types.h"
#include "transport/memory_cache.h"
#include "transport/transport.h"
#include "worker/collective/blocking_communicator.h"
#include "worker/os/event_count.h"
#include "worker/schedule/lane_layout.h"
#include "worker/schedule/peer_links.h"
#include "worker/schedule/schedule.h"

namespace farandole::worker::schedule {

// The same on all members of a communicator, but for what is said to differ.
struct RunnerOptions {
  // Largest block in flight; larger operands are cut into lanes.
  int64_t chunk_bytes = 256 << 10;
  // Lanes under way at a time. Each has scratch memory for what a round receives to be reduced.
  int lanes = 4;
  // Sums and copies up to this size are made on the transport's loop, where the data arrives, if that is not the
  // calling thread; larger ones on the calling thread, so that the loop goes on moving bytes.
  int64_t loop_work_bytes = 16 << 10;
  // How long the calling thread looks for what arrives before it sleeps; negative: if each member of this host has a
  // CPU, for a while, otherwise not at all. May differ between members.
  int64_t look_ns = -1;
  // After a wait in vain: how long to listen for what the others say. Who is silent for so long cannot speak, or has
  // not come at all.
  int silence_ms = 1000;
};

// Carries schedules out on channels: the only code that sees both. One collective at a time.
//
// A slot takes one lane after another through all rounds. A round's operations are posted together; whoever reports
// the last one done (the transport's loop, or the calling thread when work was left to it) sums up and posts the next
// round. The calling thread lends itself to the transport's loop while it waits, if the transport can use it. After the
// first failure, also that of a peer that says so, no round is begun any more, the channels are closed, and Run returns
// when no operation is left that could touch the operand. After Withdraw it is the same, but the channels live.
class ScheduleRunner {
 public:
  // Both outlive this object, but the channels of `links` must be gone before it is.
  ScheduleRunner(transport::Transport* transport, PeerLinks* links, RunnerOptions options);

  struct Call {
    const Schedule* schedule = nullptr;
    const LaneLayout* layout = nullptr;
    collective::Instance instance;
    // A collective may be several calls of one instance, numbered from 0 on.
    uint32_t stage = 0;
    arithmetic::Reduction how = DataType::kUint8;
    char* data = nullptr;
    // Of this member.
    int position = 0;
    // What kCopy and kSendInput take: LaneLayout::Source says from where.
    const char* input = nullptr;
    int64_t input_bytes = 0;
    // Where a block that is reduced in order goes, whole; null: to its place in `data`.
    char* result = nullptr;
    TimePoint deadline;
  };
  // The first failure of this or an earlier call, CANCELLED if this one was withdrawn, or OK. Frames of earlier
  // instances that are still under way belong to withdrawn ones and are dropped.
  absl::Status Run(const Call& call);

  // Any thread, never blocks: the calls of this instance, running or to come, end with CANCELLED.
  void Withdraw(const collective::Instance& instance);

  // Any thread, never blocks: `status` becomes the first failure, if there is none.
  void Cancel(const absl::Status& status);

  // Of operands; used by the thread that calls Run.
  transport::MemoryCache* memory() { return &memory_; }

  // After a failure: a position or PeerLinks::kNobody.
  int suspect() const;

 private:
  struct Slot {
    size_t index = 0;
    int64_t lane = 0;
    size_t round = 0;
    // Operations of the round that are not done, and one for who posts them.
    std::atomic<int> pending{0};
  };

  absl::Status Prepare(const Call& call);
  absl::Status PrepareScratch();
  absl::Status GrowScratch(size_t bytes);
  void ForgetOperands();
  // Until Proceed() is content.
  void WaitUntil(TimePoint moment);
  // What the calling thread has to do now. The first time, that is to begin: it drives the transport then already, so
  // that what is posted wakes nobody else. True if it has to stop driving: all is done, or the channels are to be
  // closed.
  bool Proceed();
  void Begin();
  // Takes the slot as far as it gets without waiting.
  void Drive(Slot* slot, bool on_loop);
  // True if everything in the round is done already.
  bool PostRound(Slot* slot);
  // `aside`: the number of this receive among those of the round that are reduced.
  void PostStep(Slot* slot, const Step& step, const Extent& extent, int aside);
  void OnDone(Slot* slot, int peer, const absl::Status& status);
  // Leaves what is large to the calling thread.
  bool LeaveWork(Slot* slot);
  void Work(Slot* slot);
  void ReduceInOrder(Slot* slot, const Extent& extent, int block);
  size_t ScratchOffset(const Slot& slot, int aside) const;
  void EndSlot();
  bool IsWithdrawn() const;
  Slot* NextReady();
  // The first one counts. `suspect` as from PeerLinks::Suspect.
  void Fail(const absl::Status& status, int suspect);
  // Tells the peers of the failure and closes the channels, once.
  void Close();
  // If nobody is known to be to blame for a wait in vain: looks for one.
  void FindSilent();
  absl::Status failure() const;
  Extent ExtentOf(const Slot& slot, const Step& step) const;
  static bool IsSkipped(const Step& step, const Extent& extent);

  transport::Transport* const transport_;
  PeerLinks* const links_;
  const RunnerOptions options_;
  // Grows to what the calls need. Of each slot `asides_` pieces of `aside_bytes_`.
  std::unique_ptr<char[]> scratch_;
  size_t scratch_bytes_ = 0;
  transport::MemoryCache memory_;
  std::vector<std::unique_ptr<Slot>> slots_;

  // Of the running call; constant while slots are active.
  Call call_;
  std::thread::id caller_;
  bool begun_ = false;
  bool closed_ = false;
  transport::MemoryCache::Use data_, input_, aside_;
  int64_t slots_used_ = 0;
  size_t aside_bytes_ = 0;
  size_t asides_ = 0;
  std::atomic<int64_t> next_lane_{0};
  std::atomic<int> active_{0};
  std::atomic<bool> failed_{false};
  std::atomic<bool> cancelled_{false};
  // A slot became ready, failed or ended.
  os::EventCount changed_;

  mutable absl::Mutex mutex_;
  std::deque<Slot*> ready_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  transport::Tag withdrawn_below_ ABSL_GUARDED_BY(mutex_);
  // Those with whom operations were under way at the failure.
  std::vector<bool> awaited_ ABSL_GUARDED_BY(mutex_);
  int suspect_ ABSL_GUARDED_BY(mutex_) = PeerLinks::kNobody;
};

}  // namespace farandole::worker::schedule

#endif  // FARANDOLE_WORKER_SCHEDULE_SCHEDULE_RUNNER_H_
