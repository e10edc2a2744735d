#ifndef FARANDOLE_WORKER_ARITHMETIC_REDUCE_AVX2_H_
#define FARANDOLE_WORKER_ARITHMETIC_REDUCE_AVX2_H_

#include "worker/arithmetic/reduce_kernels.h"

namespace farandole::worker::arithmetic {

// The passes for AVX2 and F16C. Null: this CPU has not got it.
const ReduceKernels* Avx2Kernels();

}  // namespace farandole::worker::arithmetic

#endif  // FARANDOLE_WORKER_ARITHMETIC_REDUCE_AVX2_H_
