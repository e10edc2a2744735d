#ifndef FARANDOLE_WORKER_SESSION_WORK_H_
#define FARANDOLE_WORKER_SESSION_WORK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "worker/collective/instance.h"
#include "worker/device/phases.h"
#include "worker/session/operation.h"

namespace farandole::worker::session {

// An item of the controller's log, or a batch of the replay, on its way through the executor; its names are resolved to
// the operations they answer.
struct Work {
  enum class Kind : uint8_t { kBatch, kError, kBarrierDone, kLeaveDone, kJoinDone, kSetChanged };

  Kind kind = Kind::kBatch;
  collective::Instance instance;  // anchor = index of the item, or of the Replay item for an instance of a replay
  // Index of the item that orders it; 0: a batch that the replay started.
  uint64_t item = 0;
  uint32_t process_set = 0;
  // At least one of a batch. Null: this worker has joined and adds zeros, which only allreduces know.
  std::vector<std::shared_ptr<Operation>> operations;
  // Of a batch: once started it cannot be withdrawn (proto/rules/finality.h).
  bool final = false;
  // kBatch with a null operation: the signature of each.
  std::vector<Signature> signatures;
  // kBatch, for each operation. Allgather: dimension 0 of every member; empty for the others. A replay has no
  // allgathers: empty.
  std::vector<std::vector<int64_t>> first_dims;
  // kError: what the operations end with.
  completion::Result error;
  // When what was done, in ns of the monotonic clock, for a timeline, or to measure a device; null: nobody asks.
  struct Trace {
    struct Collective {
      std::string medium;  // "shm"
      int64_t begin_ns = 0;
      int64_t end_ns = 0;
      device::Phases phases;  // on a device
    };
    bool in_timeline = false;
    int64_t dispatched_ns = 0;
    int64_t begin_ns = 0;
    std::vector<Collective> collectives;
  };
  std::shared_ptr<Trace> trace;
  // kSetChanged: the process set, its data plane is made or taken down; `removed` as in the item.
  ProcessSet changed_set;
  bool removed = false;

  // Of a batch's entry.
  const Signature& signature(size_t i) const {
    return operations[i] != nullptr ? operations[i]->request.signature : signatures[i];
  }
};

}  // namespace farandole::worker::session

#endif  // FARANDOLE_WORKER_SESSION_WORK_H_
