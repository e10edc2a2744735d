#ifndef FARANDOLE_WORKER_SESSION_RETAINED_ITEMS_H_
#define FARANDOLE_WORKER_SESSION_RETAINED_ITEMS_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "proto/messages.h"

namespace farandole::worker::session {

// Items that a restarted controller may ask for (docs/replay.md, sections 2 and 5): those that are not stable; besides,
// the Replay item for as long as its replay lasts, and it and its Resume for as long as instances begun in it are open.
// At most two more than the controller lets be unstable (C11). They hold full names and signatures, no slots.
class RetainedItems {
 public:
  // In rising order.
  void Add(Item item);
  // Stable: every worker concerned has what is up to here.
  void DropThrough(uint64_t index);

  // No instance begun in a replay that has ended is open any more.
  void ForgetBegun();

  // Ascending.
  std::vector<uint64_t> Indices() const;
  // Those of `indices` that are here, in the order of `indices`.
  std::vector<Item> Find(const std::vector<uint64_t>& indices) const;

 private:
  std::deque<Item> items_;
  // Indices of the markers that are kept in any case, 0 = none; once stable they are in kept_.
  uint64_t replay_ = 0;
  uint64_t resume_ = 0;
  std::vector<Item> kept_;  // at most two, rising, below all of items_
};

}  // namespace farandole::worker::session

#endif  // FARANDOLE_WORKER_SESSION_RETAINED_ITEMS_H_
