#ifndef FARANDOLE_WORKER_BATCH_RUNNER_H_
#define FARANDOLE_WORKER_BATCH_RUNNER_H_

#include <vector>

#include "absl/status/status.h"
#include "worker/adasum_runner.h"
#include "worker/batch_buffer.h"
#include "worker/batch_parts.h"
#include "worker/communicator.h"
#include "worker/group.h"
#include "worker/operation.h"
#include "worker/work.h"

namespace farandole {

// Executes batches on a communicator: lays tensors side by side, calls the collective, puts results where the script
// wants them. Floating-point numbers are scaled by the collective, but for tensors of different factors in one of them;
// these and integers are scaled in the copies. Knows nothing of threads or of the control plane. One thread at a time.
//
// A batch becomes one collective for each of its parts; all members number them alike. Nothing of the script's memory
// changes before all members have come (D3).
class BatchRunner {
 public:
  // The status of the collective that failed; RESOURCE_EXHAUSTED when there is no memory; INTERNAL when the batch has
  // an entry that no controller sends.
  absl::Status Run(const Work& work, const Group& group, Communicator* communicator);

 private:
  absl::Status RunPart(const Work& work, const BatchPart& part, const Group& group, const Instance& instance,
                       Communicator* communicator);
  absl::Status Allreduce(const Work& work, const BatchPart& part, const Instance& instance, Communicator* communicator);
  absl::Status Adasum(const Work& work, const BatchPart& part, const Instance& instance, Communicator* communicator);
  absl::Status Reducescatter(const Work& work, const BatchPart& part, const Instance& instance,
                             Communicator* communicator);
  absl::Status Alltoall(Instance instance, Operation* operation, Communicator* communicator);
  absl::Status Allgather(const Instance& instance, const std::vector<int64_t>& first_dims, Operation* operation,
                         Communicator* communicator);
  absl::Status Broadcast(const Instance& instance, const Group& group, Operation* operation,
                         Communicator* communicator);

  // pieces_ = the tensors of the part.
  void FillPieces(const Work& work, const BatchPart& part);

  AdasumRunner adasum_;
  BatchBuffer scaled_;
  std::vector<Piece> pieces_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_BATCH_RUNNER_H_
