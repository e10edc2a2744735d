#ifndef FARANDOLE_WORKER_EXECUTE_BATCH_RUNNER_H_
#define FARANDOLE_WORKER_EXECUTE_BATCH_RUNNER_H_

#include <vector>

#include "absl/status/status.h"
#include "worker/collective/batch_buffer.h"
#include "worker/collective/communicator.h"
#include "worker/collective/group.h"
#include "worker/execute/adasum_runner.h"
#include "worker/execute/batch_parts.h"
#include "worker/session/operation.h"
#include "worker/session/work.h"

namespace farandole::worker::execute {

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
  absl::Status Run(const session::Work& work, const collective::Group& group, collective::Communicator* communicator);

 private:
  absl::Status RunPart(const session::Work& work, const BatchPart& part, const collective::Group& group,
                       const collective::Instance& instance, collective::Communicator* communicator);
  absl::Status Allreduce(const session::Work& work, const BatchPart& part, const collective::Instance& instance,
                         collective::Communicator* communicator);
  absl::Status Adasum(const session::Work& work, const BatchPart& part, const collective::Instance& instance,
                      collective::Communicator* communicator);
  absl::Status Reducescatter(const session::Work& work, const BatchPart& part, const collective::Instance& instance,
                             collective::Communicator* communicator);
  absl::Status Alltoall(collective::Instance instance, session::Operation* operation,
                        collective::Communicator* communicator);
  absl::Status Allgather(const collective::Instance& instance, const std::vector<int64_t>& first_dims,
                         session::Operation* operation, collective::Communicator* communicator);
  absl::Status Broadcast(const collective::Instance& instance, const collective::Group& group,
                         session::Operation* operation, collective::Communicator* communicator);

  // pieces_ = the tensors of the part.
  void FillPieces(const session::Work& work, const BatchPart& part);

  AdasumRunner adasum_;
  collective::BatchBuffer scaled_;
  std::vector<collective::Piece> pieces_;
};

}  // namespace farandole::worker::execute

#endif  // FARANDOLE_WORKER_EXECUTE_BATCH_RUNNER_H_
