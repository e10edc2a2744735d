#ifndef FARANDOLE_WORKER_ARITHMETIC_REDUCE_AVX512_H_
#define FARANDOLE_WORKER_ARITHMETIC_REDUCE_AVX512_H_

#include "worker/arithmetic/reduce_kernels.h"

namespace farandole::worker::arithmetic {

// The passes for AVX-512 (F, BW, DQ, VL). Without the instructions of avx512_bf16: these flush denormals to zero. Null:
// this CPU has not got it.
const ReduceKernels* Avx512Kernels();

}  // namespace farandole::worker::arithmetic

#endif  // FARANDOLE_WORKER_ARITHMETIC_REDUCE_AVX512_H_
