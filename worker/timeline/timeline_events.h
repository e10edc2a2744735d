#ifndef FARANDOLE_WORKER_TIMELINE_TIMELINE_EVENTS_H_
#define FARANDOLE_WORKER_TIMELINE_TIMELINE_EVENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/messages.h"
#include "worker/collective/instance.h"
#include "worker/timeline/timeline_file.h"

namespace farandole::worker::timeline {

// What happened to one batch at one rank, on its monotonic clock.
struct BatchTrace {
  struct Tensor {
    std::string name;
    std::string args;      // dtype and shape, as the inside of a JSON object
    int64_t ready_ns = 0;  // submitted
  };
  // Inside the batch, for all of its tensors alike; in order, without overlap.
  struct Activity {
    std::string name;
    int64_t begin_ns = 0;
    int64_t end_ns = 0;
  };

  collective::Instance instance;
  std::string operation;  // "ALLREDUCE"
  std::vector<Tensor> tensors;
  // Known to be ready everywhere, as this rank heard it; of a replay, which nobody hears, when it was ready here.
  int64_t dispatched_ns = 0;
  bool replayed = false;
  int64_t begin_ns = 0;  // the executor took it
  int64_t end_ns = 0;
  std::vector<Activity> activities;
};

// Writes a batch at rank 0. `ready_us[rank]` holds, for every other rank that has reported, how long before the end of
// the batch each of its tensors was ready there: the end is nearly common to all ranks, so it places their times on
// this rank's clock. `start_ns` is the timeline's zero.
void WriteBatch(const BatchTrace& batch, Rank self, const std::vector<std::vector<uint64_t>>& ready_us,
                int64_t start_ns, TimelineFile* file);

// What another rank tells rank 0 of this batch.
TraceRecord RecordOf(const BatchTrace& batch);

}  // namespace farandole::worker::timeline

#endif  // FARANDOLE_WORKER_TIMELINE_TIMELINE_EVENTS_H_
