#ifndef FARANDOLE_WORKER_ARITHMETIC_REDUCE_BASELINE_H_
#define FARANDOLE_WORKER_ARITHMETIC_REDUCE_BASELINE_H_

#include "worker/arithmetic/reduce_kernels.h"

namespace farandole::worker::arithmetic {

// The passes in vectors of 16 bytes, which every CPU of the kinds that we build for has. Always there.
const ReduceKernels* BaselineKernels();

}  // namespace farandole::worker::arithmetic

#endif  // FARANDOLE_WORKER_ARITHMETIC_REDUCE_BASELINE_H_
