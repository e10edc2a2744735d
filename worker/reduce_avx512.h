#ifndef FARANDOLE_WORKER_REDUCE_AVX512_H_
#define FARANDOLE_WORKER_REDUCE_AVX512_H_

#include "worker/reduce_kernels.h"

namespace farandole {

// The passes for AVX-512 (F, BW, DQ, VL). Without the instructions of avx512_bf16: these flush denormals to zero. Null:
// this CPU has not got it.
const ReduceKernels* Avx512Kernels();

}  // namespace farandole

#endif  // FARANDOLE_WORKER_REDUCE_AVX512_H_
