#ifndef FARANDOLE_WORKER_REDUCE_AVX2_H_
#define FARANDOLE_WORKER_REDUCE_AVX2_H_

#include "worker/reduce_kernels.h"

namespace farandole {

// The passes for AVX2 and F16C. Null: this CPU has not got it.
const ReduceKernels* Avx2Kernels();

}  // namespace farandole

#endif  // FARANDOLE_WORKER_REDUCE_AVX2_H_
