#ifndef FARANDOLE_CONTROLLER_READY_BATCHER_H_
#define FARANDOLE_CONTROLLER_READY_BATCHER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "base/clock.h"
#include "controller/types/open_wait.h"
#include "controller/types/ready_tensor.h"

namespace farandole::controller::ready {

// Ready tensors on their way into batches. Pure.
//
// A unit is what goes into one batch whatever else does: one tensor, or all of an explicit group. Units of allreduces
// of one process set with equal dtype, reduction, factors and device are fused up to the threshold, past units that do
// not match; the greater priority goes first, then what was ready first. Everything else, Adasum and groups of
// different kinds among it, goes alone and at once.
//
// While more than kBatchesOut batches of a process set are out that its pacer (its lowest rank) has not reported
// complete, fusible units of this set wait, and what becomes ready meanwhile is fused; on an accelerator, which is
// behind the scripts that wait only until all is handed over to it, kAcceleratorBatchesOut. The pacer's next report
// releases them; it makes one when it has run out of work while it has open requests, and what waits here is open
// there. With a window they also wait for others up to that long, unless they fill the threshold.
//
// Deterministic: a batch is one unit. What a script puts into a group is then all that is fused, on every run; when
// tensors arrive has no influence on what is reduced together.
class Batcher {
 public:
  static constexpr size_t kBatchesOut = 2;
  static constexpr size_t kAcceleratorBatchesOut = 16;

  struct Rules {
    int64_t fusion_threshold_bytes = 0;
    int64_t window_ms = 0;
    bool deterministic = false;
  };
  explicit Batcher(Rules rules) : rules_(rules) {}

  void Add(uint32_t process_set, std::vector<ReadyTensor> unit, TimePoint now);
  // Takes the next batch that may go out now; false if there is none. `held`: nothing of this process set may.
  bool Next(TimePoint now, const std::function<bool(uint32_t process_set)>& held, uint32_t* process_set,
            std::vector<ReadyTensor>* batch);
  // The batch of the last Next() is item `index` of the log.
  void Sent(uint32_t process_set, uint64_t index) { out_[process_set].push_back(index); }
  // The set's pacer has executed all items up to here.
  void Completed(uint32_t process_set, uint64_t through);
  // Windows that are over hold nothing back any more.
  void Tick(TimePoint now);
  TimePoint NextDeadline() const;

  // Forgets what waits in these process sets.
  void Drop(const std::function<bool(uint32_t process_set)>& which);
  void Clear() { lanes_.clear(); }
  bool empty() const { return lanes_.empty(); }
  // What waits; whose it is has to be filled in.
  std::vector<OpenWait> Waits(size_t max) const;
  // Nothing of this set waits.
  bool Empty(uint32_t process_set) const;
  // Units that come from now on have this number or a greater one.
  uint64_t next_unit() const { return next_unit_; }
  // A unit of this set with a number below this one waits.
  bool AnyBefore(uint64_t number, uint32_t process_set) const;

 private:
  struct Unit {
    uint64_t number;
    int32_t priority;
    int64_t bytes;
    std::vector<ReadyTensor> tensors;
  };
  // Units that may be fused with each other, in the order in which they go out; never empty. All units of a set that go
  // alone share one lane.
  struct Lane {
    uint32_t process_set;
    bool alone;
    bool window_open;
    TimePoint since;
    std::deque<Unit> queue;
  };
  bool Alone(const std::vector<ReadyTensor>& unit) const;
  Lane* LaneFor(uint32_t process_set, const std::vector<ReadyTensor>& unit);
  Lane* FirstLane(const std::function<bool(uint32_t)>& held);
  bool Fills(const Lane& lane) const;
  bool MayGoOut(const Lane& lane) const;

  const Rules rules_;
  std::vector<Lane> lanes_;
  std::map<uint32_t, std::deque<uint64_t>> out_;
  uint64_t next_unit_ = 0;
};

}  // namespace farandole::controller::ready

#endif  // FARANDOLE_CONTROLLER_READY_BATCHER_H_
