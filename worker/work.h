#ifndef FARANDOLE_WORKER_WORK_H_
#define FARANDOLE_WORKER_WORK_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "worker/communicator.h"
#include "worker/operation.h"

namespace farandole {

// An item of the controller's log on its way through the executor, its names resolved to the operations they answer.
struct Work {
  enum class Kind : uint8_t { kBatch, kError, kBarrierDone, kLeaveDone };

  Kind kind = Kind::kBatch;
  Instance instance;  // anchor = index of the item
  uint32_t process_set = 0;
  std::vector<std::shared_ptr<Operation>> operations;
  // kBatch: dimension 0 of every member for each operation that is an allgather, empty for the others.
  std::vector<std::vector<int64_t>> first_dims;
  // kError: what the operations end with.
  Result error;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_WORK_H_
