#ifndef FARANDOLE_WORKER_REDUCTION_H_
#define FARANDOLE_WORKER_REDUCTION_H_

#include "proto/types.h"

namespace farandole {

// How elements of one type are combined: kSum, kMin, kMax or kProduct. An average is a sum that is divided afterwards.
struct Reduction {
  // Not explicit: a type alone stands for its sum.
  Reduction(DataType dtype, ReduceOp op = ReduceOp::kSum) : dtype(dtype), op(op) {}  // NOLINT(runtime/explicit)

  DataType dtype;
  ReduceOp op;
};

// The combination that this operation needs: that of kAverage is kSum.
inline ReduceOp CombinationOf(ReduceOp op) { return op == ReduceOp::kAverage ? ReduceOp::kSum : op; }

}  // namespace farandole

#endif  // FARANDOLE_WORKER_REDUCTION_H_
