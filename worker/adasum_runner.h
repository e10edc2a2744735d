#ifndef FARANDOLE_WORKER_ADASUM_RUNNER_H_
#define FARANDOLE_WORKER_ADASUM_RUNNER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "worker/batch_buffer.h"
#include "worker/batch_parts.h"
#include "worker/communicator.h"
#include "worker/work.h"

namespace farandole {

// Adasum of the tensors of a batch, each of which is a layer of its own, made of other collectives of any communicator.
// Of a batch of B bytes on N members each member
//   gets B/N from all (an alltoall), whose dot products it takes for each layer,
//   adds up those of all members (an allreduce of N(N+1)/2 numbers for each layer),
//   combines its share and gets those of the others (an allgather).
// So B bytes of memory besides the batch itself, or what the communicator needs for an alltoall. A share is combined by
// one member, so that all get the same bits. Factors go into the weights. A barrier comes first: nothing later is
// entered before all members have come, and nothing of the script's memory changes before the end.
//
// One thread at a time.
class AdasumRunner {
 public:
  // `part`: of one element type, which has an Adasum. `instance` is that of the first collective, and then of the last.
  // Status as BatchRunner::Run.
  absl::Status Run(const Work& work, const BatchPart& part, Instance* instance, Communicator* communicator);

 private:
  // A tensor among the elements of the batch.
  struct Layer {
    int64_t begin, count;
    double factor;
  };

  // Null: no memory.
  char* Pack(const Work& work, const BatchPart& part, DataType dtype, Communicator* communicator);
  // The operands' elements [begin, begin + count) -> their Adasum, at `out`.
  absl::Status Combine(DataType dtype, const std::vector<const char*>& operands, int64_t begin, int64_t count,
                       char* out, Instance* instance, Communicator* communicator);

  BatchBuffer own_;
  BatchBuffer shares_;
  std::vector<Layer> layers_;
  int64_t count_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ADASUM_RUNNER_H_
