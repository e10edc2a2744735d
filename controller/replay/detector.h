#ifndef FARANDOLE_CONTROLLER_REPLAY_DETECTOR_H_
#define FARANDOLE_CONTROLLER_REPLAY_DETECTOR_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/optional.h"
#include "controller/replay/back_off.h"
#include "proto/types.h"

namespace farandole::controller::replay {

// Finds out that what is dispatched repeats itself (section "Detector" of docs/replay.md). Pure.
//
// Every (process set, name, signature) has a random 64-bit value; the sums over what was dispatched between two item
// boundaries tell whether the same was dispatched there, however it was ordered and batched. A batch costs a few
// look-ups per candidate for the last boundary of a period; candidates go back no further than the 8th last batch with
// the same first tensor.
class Detector {
 public:
  static constexpr size_t kPeriodBatchesMax = 1024;

  // A batch was dispatched while negotiating.
  void Dispatched(PeriodBatch batch);
  // Something was that is not replayed, or the phase changed: no period goes across it.
  void Interrupted();

  struct Found {
    uint64_t digest = 0;
    Period period;
  };
  // The period that has just ended, if it was seen as often in a row as `back_off` wants. Order and composition are
  // those of the repetition with the fewest batches among the last three: what was not seen fused is never fused.
  absl::optional<Found> Find(const BackOff& back_off) const;

  // Of what a period contains, whatever the order and the batches; never 0.
  static uint64_t DigestOf(const Period& period);
  // Allreduce, reducescatter and Adasum: they complete nowhere before all have contributed, are equal on all ranks, and
  // need no answer of the controller.
  static bool Replayable(const Request& request);

 private:
  // One (process set, name, signature).
  struct Known {
    Request request;
    uint64_t value = 0;
    std::deque<uint64_t> seen;  // the last few positions of batches with it
  };
  struct Boundary {
    uint64_t sum = 0;  // of everything up to here
    // The smallest period that ends here, and how many of them in a row; 0 = none.
    uint64_t digest = 0;
    uint32_t run = 0;
    uint32_t process_set = 0;
    std::vector<std::shared_ptr<Known>> batch;  // that ends here
  };
  std::shared_ptr<Known> Intern(Request request);
  const Boundary& at(uint64_t position) const { return boundaries_[position - base_]; }
  // Position of the boundary with this sum.
  const uint64_t* PositionOf(uint64_t sum) const;
  void FindRun(uint64_t position, Boundary* boundary) const;
  void DropOldest();

  // By process set and name; the last few signatures of each.
  absl::flat_hash_map<std::pair<uint32_t, std::string>, std::vector<std::shared_ptr<Known>>> known_;
  std::deque<Boundary> boundaries_{1};
  absl::flat_hash_map<uint64_t, uint64_t> by_sum_{{0, 0}};
  uint64_t base_ = 0;  // position of the first boundary that is kept
};

}  // namespace farandole::controller::replay

#endif  // FARANDOLE_CONTROLLER_REPLAY_DETECTOR_H_
