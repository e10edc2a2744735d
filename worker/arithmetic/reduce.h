#ifndef FARANDOLE_WORKER_ARITHMETIC_REDUCE_H_
#define FARANDOLE_WORKER_ARITHMETIC_REDUCE_H_

#include <cstdint>
#include <vector>

#include "proto/types.h"
#include "worker/arithmetic/reduce_kernels.h"
#include "worker/arithmetic/reduction.h"

// Arithmetic on host memory: combinations and scales of arrays. Any alignment, any count from 0. Every element type;
// CanReduce says so, and asking for anything else, or for scales of bool, is a bug of ours (abort).
//
//   sum, product   integers wrap around; float16 and bfloat16 in float32, rounded to nearest even
//   bool           sum and max are "or", product and min are "and"; every value is a byte of 0 or 1
//   min, max       exact; NaN if either is NaN; -0 is less than +0. So the result does not depend on the order of the
//                  operands
//   NaN            as a result always the one of which all bits are set
namespace farandole::worker::arithmetic {

bool CanReduce(const Reduction& how);

// One pass over memory with the type and operation of `how`, in the form chosen once for this CPU. The factors are
// those of the pass.
void Combine(const Reduction& how, const Combination& pass);

// out[i] = a[i] combined with b[i], without the factors of `how`. `out` may be the same address as `a` or `b`, but not
// overlap them otherwise.
void Reduce2(const Reduction& how, void* out, const void* a, const void* b, int64_t count);

// What the collective does with the combination: data[i] = postscale * (mean * data[i]), as in reduction.h.
void ScaleResult(const Reduction& how, void* data, int64_t count);

// out[i] = in[i] * factor; `out` may be `in`. Floating-point numbers: as a prescale in reduction.h. Integers: product
// in double, truncated toward zero; what the type cannot hold becomes its nearest value, NaN its smallest.
void ScaleCopy(DataType dtype, void* out, const void* in, int64_t count, double factor);
void ScaleInPlace(DataType dtype, void* data, int64_t count, double factor);

// 16-bit floats (IsHalf; else abort) to float32, exact, and back, rounded to nearest even.
void Widen(DataType dtype, float* out, const void* in, int64_t count);
void Narrow(DataType dtype, void* out, const float* in, int64_t count);

// The forms of the passes that this CPU can run, the best last; tests hold them all against each other.
const std::vector<const ReduceKernels*>& ReduceForms();

}  // namespace farandole::worker::arithmetic

#endif  // FARANDOLE_WORKER_ARITHMETIC_REDUCE_H_
