#ifndef FARANDOLE_WORKER_EXECUTE_BATCH_PARTS_H_
#define FARANDOLE_WORKER_EXECUTE_BATCH_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/session/work.h"

namespace farandole::worker::execute {

// The entries of a batch that one collective can execute together, as positions in it.
using BatchPart = std::vector<size_t>;

// Allreduces of one element type in memory of one kind that combine alike together, averages with sums, whatever their
// factors; of 16-bit floats those with the same operation and factors, since these are rounded once, with the
// combination. Everything else alone. A part holds one tensor or at most `bytes_max`. In the order in which the batch
// has the first of each, hence the same on all members if `bytes_max` is.
std::vector<BatchPart> PartsOf(const session::Work& work, int64_t bytes_max);

}  // namespace farandole::worker::execute

#endif  // FARANDOLE_WORKER_EXECUTE_BATCH_PARTS_H_
