#ifndef FARANDOLE_WORKER_CUDA_FAKE_NCCL_WORK_H_
#define FARANDOLE_WORKER_CUDA_FAKE_NCCL_WORK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/cuda/nccl_abi.h"

// The arithmetic of the fake NCCL, on memory that the host reaches.
namespace farandole::worker::cuda {

size_t FakeNcclBytesOf(ncclDataType_t type);

// A value of some data type, its bytes first.
struct FakeNcclScalar {
  uint64_t bytes = 0;
};

// `value` as one of this type.
FakeNcclScalar FakeNcclScalarOf(double value, ncclDataType_t type);

// How elements of several ranks become one: in the order of ranks, so that a test can predict each bit. float16 and
// bfloat16 are computed as float32 and rounded once. Integers wrap.
struct FakeNcclReduction {
  ncclDataType_t type = ncclFloat32;
  // ncclAvg only of integers: the sum is divided, towards zero.
  ncclRedOp_t op = ncclSum;
  // By rank, what its elements are multiplied by first; empty: nothing.
  std::vector<FakeNcclScalar> factors;
};

// `in` by rank; `out` may be one of them.
void FakeNcclReduce(const FakeNcclReduction& reduction, const std::vector<const char*>& in, char* out, size_t count);

}  // namespace farandole::worker::cuda

#endif  // FARANDOLE_WORKER_CUDA_FAKE_NCCL_WORK_H_
