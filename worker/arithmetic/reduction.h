#ifndef FARANDOLE_WORKER_ARITHMETIC_REDUCTION_H_
#define FARANDOLE_WORKER_ARITHMETIC_REDUCTION_H_

#include "proto/types.h"

namespace farandole::worker::arithmetic {

// How elements of one type are combined: kSum, kMin, kMax or kProduct. An average is a sum with a mean.
//
// The result is postscale * (mean * combination of (prescale * operand)). prescale and postscale are products as a
// script would write them in torch: `x * prescale` before and `result * postscale` after the operation, each rounded to
// the own type. The mean is part of the operation. Integers have no factors here (all stay 1): the caller scales them,
// since an exact average divides.
//   16-bit floats  prescale and postscale rounded to float32, products in float32; combined in float32 in order of
//                  position and multiplied with the mean there, rounded to the own type once
//   float32        prescale and postscale rounded to float32; combined in float32; the product with the mean in double,
//                  rounded once
//   float64        all in double
// A factor of 1 changes no number.
struct Reduction {
  // Not explicit: a type alone stands for its sum.
  Reduction(DataType dtype, ReduceOp op = ReduceOp::kSum, double prescale = 1, double postscale = 1,  // NOLINT
            double mean = 1)
      : dtype(dtype), op(op), prescale(prescale), postscale(postscale), mean(mean) {}

  DataType dtype;
  ReduceOp op;
  double prescale;
  double postscale;
  double mean;

  bool scales() const { return prescale != 1 || postscale != 1 || mean != 1; }
};

// The mean of 16-bit floats, as it is applied: in float32.
inline double FactorOfHalves(double factor) {
  // Volatile: GCC 12 drops the rounding of several at once when it makes vectors of them.
  const volatile float rounded = static_cast<float>(factor);
  return rounded;
}

inline bool IsHalf(DataType dtype) { return dtype == DataType::kFloat16 || dtype == DataType::kBfloat16; }

// The combination that this operation needs: that of kAverage is kSum.
inline ReduceOp CombinationOf(ReduceOp op) { return op == ReduceOp::kAverage ? ReduceOp::kSum : op; }

}  // namespace farandole::worker::arithmetic

#endif  // FARANDOLE_WORKER_ARITHMETIC_REDUCTION_H_
