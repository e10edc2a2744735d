#ifndef FARANDOLE_WORKER_REDUCTION_H_
#define FARANDOLE_WORKER_REDUCTION_H_

#include "proto/types.h"

namespace farandole {

// How elements of one type are combined: kSum, kMin, kMax or kProduct. An average is a sum with a postscale.
//
// The result is postscale * combination of (prescale * operand). Integers have no factors here (both stay 1): the
// caller scales them, since an exact average divides.
//   16-bit floats     widened to float32, scaled, combined in order of position and scaled again there, with factors
//                     rounded to float32; rounded to the own type once, at the end
//   float32, float64  each operand times prescale in double, rounded once; combined in the own type; the combination
//                     times postscale in double, rounded once
// A factor of 1 changes no bit.
struct Reduction {
  // Not explicit: a type alone stands for its sum.
  Reduction(DataType dtype, ReduceOp op = ReduceOp::kSum, double prescale = 1, double postscale = 1)  // NOLINT
      : dtype(dtype), op(op), prescale(prescale), postscale(postscale) {}

  DataType dtype;
  ReduceOp op;
  double prescale;
  double postscale;

  bool scales() const { return prescale != 1 || postscale != 1; }
};

// A factor of 16-bit floats, as it is applied: in float32.
inline double FactorOfHalves(double factor) {
  // Volatile: GCC 12 drops the rounding of several at once when it makes vectors of them.
  const volatile float rounded = static_cast<float>(factor);
  return rounded;
}

inline bool IsHalf(DataType dtype) { return dtype == DataType::kFloat16 || dtype == DataType::kBfloat16; }

// The combination that this operation needs: that of kAverage is kSum.
inline ReduceOp CombinationOf(ReduceOp op) { return op == ReduceOp::kAverage ? ReduceOp::kSum : op; }

}  // namespace farandole

#endif  // FARANDOLE_WORKER_REDUCTION_H_
