#ifndef FARANDOLE_CONTROLLER_REPLAY_BACK_OFF_H_
#define FARANDOLE_CONTROLLER_REPLAY_BACK_OFF_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace farandole::controller::replay {

// How often a period has to be seen in a row before it is replayed (section "Detector" of docs/replay.md). Pure. A
// period is known by the digest of what it contains, whatever the order and the batches.
//
//   3, doubled after each replay that broke within 10 repetitions, up to 3,072; 1 after one that lasted 100; never
//   again after an instance of it was withdrawn
class BackOff {
 public:
  static constexpr uint32_t kNever = ~uint32_t{0};
  // Periods that are remembered; the one that was replayed longest ago and never withdrawn is forgotten first.
  static constexpr size_t kPeriodsMax = 1024;

  uint32_t Need(uint64_t digest) const;
  // A replay broke after so many repetitions.
  void Broke(uint64_t digest, uint64_t repetitions);
  void Withdrawn(uint64_t digest);
  // The ones that need a single repetition, at most 8.
  const std::vector<uint64_t>& trusted() const { return trusted_; }

 private:
  uint32_t* Remember(uint64_t digest);
  void Trust(uint64_t digest, bool trusted);

  absl::flat_hash_map<uint64_t, uint32_t> need_;
  std::deque<uint64_t> order_;  // keys of need_
  std::vector<uint64_t> trusted_;
};

}  // namespace farandole::controller::replay

#endif  // FARANDOLE_CONTROLLER_REPLAY_BACK_OFF_H_
