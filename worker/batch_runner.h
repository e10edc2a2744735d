#ifndef FARANDOLE_WORKER_BATCH_RUNNER_H_
#define FARANDOLE_WORKER_BATCH_RUNNER_H_

#include <vector>

#include "absl/status/status.h"
#include "worker/batch_buffer.h"
#include "worker/communicator.h"
#include "worker/group.h"
#include "worker/operation.h"
#include "worker/work.h"

namespace farandole {

// Executes batches on a communicator: lays tensors side by side, scales, calls the collective, puts results where the
// script wants them. Knows nothing of threads or of the control plane. One thread at a time.
class BatchRunner {
 public:
  // The status of the collective that failed; RESOURCE_EXHAUSTED when there is no memory; INTERNAL when the batch
  // mixes what cannot be executed together, which no controller sends.
  absl::Status Run(const Work& work, const Group& group, Communicator* communicator);

 private:
  using Operations = std::vector<std::shared_ptr<Operation>>;

  absl::Status Allreduce(const Work& work, Communicator* communicator);
  absl::Status AllreduceOne(const Instance& instance, const Operation& operation, Communicator* communicator);
  absl::Status Allgather(const Instance& instance, const std::vector<int64_t>& first_dims, Operation* operation,
                         Communicator* communicator);
  absl::Status Broadcast(const Instance& instance, const Group& group, Operation* operation,
                         Communicator* communicator);

  BatchBuffer buffer_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_BATCH_RUNNER_H_
