#ifndef FARANDOLE_WORKER_REDUCE_H_
#define FARANDOLE_WORKER_REDUCE_H_

#include <cstdint>

#include "proto/types.h"

// Arithmetic on host memory: sums and scales of arrays. Any alignment, any count from 0. Every element type but bool;
// CanReduce says so, and asking for another one is a bug of ours (abort).
namespace farandole {

bool CanReduce(DataType dtype);

// accumulate[i] += addend[i]. Integers wrap around. float16 and bfloat16 are added in float32 and rounded to nearest
// even; NaN stays NaN.
void ReduceSum(DataType dtype, void* accumulate, const void* addend, int64_t count);

// out[i] = a[i] + b[i]. `out` may be the same address as `a` or `b`, but not overlap them otherwise.
void ReduceSum2(DataType dtype, void* out, const void* a, const void* b, int64_t count);

// out[i] = in[i] * factor; `out` may be `in`. float64 and float32: product in double, rounded once. 16-bit floats:
// product in float32, rounded to nearest even. Integers: product in double, truncated toward zero; what the type
// cannot hold becomes its nearest value, NaN its smallest.
void ScaleCopy(DataType dtype, void* out, const void* in, int64_t count, double factor);
void ScaleInPlace(DataType dtype, void* data, int64_t count, double factor);

// The functions above by element type, in the form chosen once for this CPU; tests hold all forms against each other.
struct ReduceKernels {
  using Sum = void (*)(void* out, const void* a, const void* b, int64_t count);
  using Scale = void (*)(void* out, const void* in, int64_t count, double factor);
  static constexpr int kTypes = 11;
  const char* name;
  Sum sum[kTypes];      // null where CanReduce is false
  Scale scale[kTypes];  // the same

  static const ReduceKernels& Baseline();
  static const ReduceKernels& Best();
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_REDUCE_H_
