#ifndef FARANDOLE_WORKER_REDUCE_BASELINE_H_
#define FARANDOLE_WORKER_REDUCE_BASELINE_H_

#include "worker/reduce_kernels.h"

namespace farandole {

// The passes in vectors of 16 bytes, which every CPU of the kinds that we build for has. Always there.
const ReduceKernels* BaselineKernels();

}  // namespace farandole

#endif  // FARANDOLE_WORKER_REDUCE_BASELINE_H_
