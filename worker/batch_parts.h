#ifndef FARANDOLE_WORKER_BATCH_PARTS_H_
#define FARANDOLE_WORKER_BATCH_PARTS_H_

#include <cstddef>
#include <vector>

#include "worker/work.h"

namespace farandole {

// The entries of a batch that one collective can execute together, as positions in it.
using BatchPart = std::vector<size_t>;

// Allreduces of one element type that combine alike together, averages with sums, whatever their factors; of 16-bit
// floats those with the same operation and factors, since these are rounded once, with the combination. Everything else
// alone. In the order in which the batch has the first of each, hence the same on all members.
std::vector<BatchPart> PartsOf(const Work& work);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_BATCH_PARTS_H_
