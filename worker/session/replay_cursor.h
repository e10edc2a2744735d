#ifndef FARANDOLE_WORKER_SESSION_REPLAY_CURSOR_H_
#define FARANDOLE_WORKER_SESSION_REPLAY_CURSOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "proto/messages.h"
#include "worker/session/operation.h"
#include "worker/session/request_table.h"
#include "worker/session/work.h"

namespace farandole::worker::session {

// Where a worker stands in a replay: the period, the head batch (the first one at or after `next` that includes this
// worker), which of its requests are there, and since when others are missing. Rules W1, W3b and W4 of docs/replay.md.
// Pure. A submission costs one comparison of names and one of signatures, or none if it shares the request of the one
// before it; a start one step per request of the batch.
class ReplayCursor {
 public:
  // How long the script may leave the head batch incomplete before a Break is wanted (W3b).
  static constexpr int64_t kPatienceFirstMs = 1000;
  static constexpr uint64_t kPeriodsFirst = 2;
  static constexpr int64_t kPatienceMs = 50;
  static constexpr int64_t kPatienceFactor = 4;
  static constexpr int64_t kPatienceBlockedMs = 20;

  // A replay that begins with item `index`. `table`, which outlives this object, has the requests. `included` tells
  // whether this worker belongs to a process set.
  ReplayCursor(uint64_t index, Period period, RequestTable* table,
               const std::function<bool(uint32_t process_set)>& included);
  ReplayCursor(const ReplayCursor&) = delete;
  ReplayCursor& operator=(const ReplayCursor&) = delete;

  // Takes note of an open request if the period has it with the same signature (W1); otherwise says why it does not
  // fit.
  bool Open(const Operation& operation, TimePoint now, BreakReason* why_not);

  // All requests of the head batch are open.
  bool HeadComplete() const { return !own_.empty() && own_[head_].missing == 0; }
  // Of a complete head batch: it cannot be withdrawn once it is started.
  bool HeadFinal() const { return own_[head_].final; }
  // Takes the head batch, which must be complete, to be started (W4). Its requests are assigned now.
  Work Start(TimePoint now);

  // When the head batch will have been incomplete for too long (W3b); Infinite if it is not.
  TimePoint PatienceEnds() const;
  // A thread of the script waits for this operation, which is open: true if it is one of the incomplete head batch,
  // for which there is less patience from now on.
  bool Blocked(const Operation& operation, TimePoint now);

  uint64_t index() const { return index_; }
  uint64_t next() const { return next_; }
  const Period& period() const { return period_; }
  const PeriodBatch& BatchOf(uint64_t seq) const { return period_.batches[seq % period_.batches.size()]; }
  // What the head batch lacks, the first `max`.
  std::vector<std::string> Missing(size_t max) const;
  size_t missing() const { return own_.empty() ? 0 : own_[head_].missing; }
  // Since when some request is open and the head batch incomplete; Infinite if it is not so.
  TimePoint IncompleteSince() const;

 private:
  static constexpr int kNone = -1;

  // What the period has under one process set and name; as much of it as each submission needs.
  struct Tensor {
    const Request* fitting = nullptr;  // the last one that was opened, which Known keeps
    uint32_t place = 0;                // of the open request, if any
    uint32_t batch = 0;                // in own_: the next that has it
    int16_t fits = kNone;              // variant that `fitting` fits
    int16_t wanted = kNone;            // variant that `batch` needs
    int16_t opened = kNone;            // variant of the open request
  };
  // The rest of it.
  struct Known {
    const Request* in_period;
    std::vector<Signature> variants;
    std::shared_ptr<const Request> fitting;
  };
  struct Part {
    uint32_t tensor;  // in tensors_
    // What this one's start leaves in Tensor.
    uint32_t next_batch;
    int16_t next_wanted;
  };
  // A batch of a set that includes this worker.
  struct OwnBatch {
    uint64_t position;  // in the period
    bool final;
    size_t missing;  // requests that are not open, or wanted by an earlier batch
    std::vector<Part> parts;
  };
  using Key = std::pair<uint32_t, absl::string_view>;  // names are the period's

  static Key KeyOf(const Request& request) { return {request.signature.process_set, request.name}; }
  uint32_t TensorOf(const Request& request);
  int16_t VariantOf(uint32_t tensor, const Signature& signature);
  void LinkParts(const std::vector<std::vector<int16_t>>& variants);
  // In tensors_; kNone: the period has none of that process set and name.
  int Find(const Operation& operation);
  // The same, if this very request was there before, so that it fits.
  int FindFitting(const Operation& operation) const {
    const int index = operation.place < by_place_.size() ? by_place_[operation.place] : kNone;
    return index != kNone && tensors_[index].fitting == &operation.request ? index : kNone;
  }
  // kNone: `why_not`.
  int MakeFit(const Operation& operation, BreakReason* why_not);
  bool Fit(uint32_t index, const std::shared_ptr<const Request>& request);

  const uint64_t index_;
  const Period period_;
  RequestTable* const table_;
  absl::flat_hash_map<Key, uint32_t> by_name_;
  std::vector<int> by_place_;  // by Operation::place: the tensor found there last, whatever name is there now
  std::vector<Tensor> tensors_;
  std::vector<Known> known_;  // of each tensor
  std::vector<OwnBatch> own_;
  size_t head_ = 0;  // in own_
  uint64_t repetition_ = 0;
  uint64_t next_ = 0;
  size_t open_ = 0;
  TimePoint since_;
  int64_t longest_wait_ns_ = 0;
  TimePoint blocked_since_ = TimePoint::Infinite();  // since `next` moved last
};

}  // namespace farandole::worker::session

#endif  // FARANDOLE_WORKER_SESSION_REPLAY_CURSOR_H_
