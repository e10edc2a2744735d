#ifndef FARANDOLE_TESTS_BENCH_SUM_LOOPS_H_
#define FARANDOLE_TESTS_BENCH_SUM_LOOPS_H_

#include <cstdint>

namespace farandole::bench {

// The bound for an allreduce of two operands in shared memory: this rank's half of the cells of both is read, and the
// float32 sum written to both. 64-byte aligned, whole cache lines. `streaming`: by stores that pass the caches by.
// `chunk_bytes`: 0: each rank has one half; otherwise the ranks take chunks of that size in turn.
void SumToBoth(float* a, float* b, int64_t bytes, int rank, bool streaming, int64_t chunk_bytes);

}  // namespace farandole::bench

#endif  // FARANDOLE_TESTS_BENCH_SUM_LOOPS_H_
