#ifndef FARANDOLE_WORKER_COLLECTIVE_INSTANCE_H_
#define FARANDOLE_WORKER_COLLECTIVE_INSTANCE_H_

#include <cstdint>

namespace farandole::worker::collective {

// One execution of a batch: negotiated ones have the item's index as anchor and seq 0; replayed ones the index of the
// Replay item and a running seq (docs/replay.md). Tags and slots of the data plane are made from it.
struct Instance {
  uint64_t generation = 0;
  uint64_t anchor = 0;
  uint64_t seq = 0;
  // A batch may need several collectives. Parts are given out in steps of four: a tensor's may take the next ones, too.
  uint32_t part = 0;

  bool operator==(const Instance& o) const {
    return generation == o.generation && anchor == o.anchor && seq == o.seq && part == o.part;
  }
};

}  // namespace farandole::worker::collective

#endif  // FARANDOLE_WORKER_COLLECTIVE_INSTANCE_H_
