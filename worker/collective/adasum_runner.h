#ifndef FARANDOLE_WORKER_COLLECTIVE_ADASUM_RUNNER_H_
#define FARANDOLE_WORKER_COLLECTIVE_ADASUM_RUNNER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/collective/batch_buffer.h"
#include "worker/collective/blocking_communicator.h"
#include "worker/collective/piece.h"

namespace farandole::worker::collective {

// Adasum of several tensors, each of which is a layer of its own, made of other collectives of any communicator. Of B
// bytes on N members each member
//   gets B/N from all (an alltoall), whose dot products it takes for each layer,
//   adds up those of all members (an allreduce of N(N+1)/2 numbers for each layer),
//   combines its share and gets those of the others (an allgather).
// So it needs 2B bytes of memory, the communicator's buffer among them, and what the communicator needs for an
// alltoall. A share is combined by one member, so that all get the same bits. A barrier comes first: nothing later is
// entered, and nothing of the script's memory changes, before all members have come.
//
// One thread at a time.
class AdasumRunner {
 public:
  // Instances that one call needs: the one it is given and the next parts.
  static constexpr uint32_t kInstanceParts = 4;

  // Each piece's output becomes its factor times the Adasum of its inputs. Status as Communicator; INTERNAL: the type
  // has no Adasum; RESOURCE_EXHAUSTED: no memory.
  absl::Status Run(Instance instance, DataType dtype, absl::Span<const Piece> pieces,
                   const std::vector<double>& factors, BlockingCommunicator* communicator);

 private:
  BatchBuffer shares_;
  // For communicators without a buffer; their own scratch memory serves the allreduce in between.
  BatchBuffer operands_;
};

}  // namespace farandole::worker::collective

#endif  // FARANDOLE_WORKER_COLLECTIVE_ADASUM_RUNNER_H_
