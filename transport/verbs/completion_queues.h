#ifndef FARANDOLE_TRANSPORT_VERBS_COMPLETION_QUEUES_H_
#define FARANDOLE_TRANSPORT_VERBS_COMPLETION_QUEUES_H_

#include <infiniband/verbs.h>

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/verbs/library.h"

namespace farandole::transport::verbs {

// Completion queues of one device, which all queue pairs on it share. One that is full would lose completions and break
// everything that uses it. So who makes a queue pair reserves room for all work that it can have posted at a time, and
// when there is no room left another queue is made. One thread at a time.
class CompletionQueues {
 public:
  // `entries` of each queue. `context` and `channel` outlive this object.
  CompletionQueues(std::shared_ptr<const VerbsLibrary> library, ibv_context* context, ibv_comp_channel* channel,
                   int entries);
  ~CompletionQueues();
  CompletionQueues(const CompletionQueues&) = delete;

  // A queue with room for so many completions more. UNAVAILABLE: the device gives no queue, or none that large.
  absl::StatusOr<ibv_cq*> Reserve(int entries);
  void Release(ibv_cq* queue, int entries);

  // Takes up to `most` completions; each queue in turn. Negative: a queue is broken.
  int Poll(ibv_wc* completions, int most);
  // The next completion makes the channel readable.
  void Arm();
  // The channel is readable.
  void TakeEvents();

 private:
  struct Queue {
    ibv_cq* cq;
    int free;
    bool armed;
    unsigned events;  // taken, not acknowledged
  };

  const std::shared_ptr<const VerbsLibrary> library_;
  ibv_context* const context_;
  ibv_comp_channel* const channel_;
  const int entries_;
  std::vector<Queue> queues_;
  size_t next_ = 0;
};

}  // namespace farandole::transport::verbs

#endif  // FARANDOLE_TRANSPORT_VERBS_COMPLETION_QUEUES_H_
