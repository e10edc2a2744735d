#ifndef FARANDOLE_CONTROLLER_BATCHER_H_
#define FARANDOLE_CONTROLLER_BATCHER_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "controller/negotiator.h"
#include "proto/messages.h"

namespace farandole {

// Ready tensors of one process set on their way into batches. Pure.
//
// Allreduces with equal dtype, reduction and factors are fused up to the threshold, past tensors that do not match.
// Everything else goes alone and at once. While more than kBatchesOut batches are out that the pacer (the lowest rank
// of the set) has not reported complete, allreduces wait, and what becomes ready meanwhile is fused. The pacer's next
// report releases them; it makes one when it has run out of work while it has open requests, and what waits here is
// open there.
class Batcher {
 public:
  static constexpr size_t kBatchesOut = 2;

  Batcher(uint32_t process_set, int64_t fusion_threshold_bytes);

  void Add(ReadyTensor tensor);
  // Takes the next batch that may go out now; false if there is none. `requests` is the same with full signatures.
  bool Next(Batch* batch, std::vector<Request>* requests);
  // The batch of the last Next() is item `index` of the log.
  void Sent(uint64_t index) { out_.push_back(index); }
  // The pacer has executed all items up to here.
  void Completed(uint64_t through);
  // Forgets what waits.
  void Clear() { lanes_.clear(); }
  bool empty() const { return lanes_.empty(); }

 private:
  struct Waiting {
    uint64_t sequence;
    ReadyTensor tensor;
  };
  // Tensors that may be fused with each other, in the order in which they became ready; never empty. All tensors that
  // go alone share one lane.
  struct Lane {
    bool alone;
    std::deque<Waiting> queue;
  };
  bool Fits(const Lane& lane, const ReadyTensor& tensor) const;
  Lane* FirstLane();

  const uint32_t process_set_;
  const int64_t threshold_;
  std::vector<Lane> lanes_;
  std::deque<uint64_t> out_;
  uint64_t next_sequence_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_CONTROLLER_BATCHER_H_
