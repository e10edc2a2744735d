#ifndef FARANDOLE_WORKER_REDUCE_H_
#define FARANDOLE_WORKER_REDUCE_H_

#include <cstdint>

#include "proto/types.h"
#include "worker/reduction.h"

// Arithmetic on host memory: combinations and scales of arrays. Any alignment, any count from 0. Every element type but
// bool; CanReduce says so, and asking for anything else is a bug of ours (abort). The factors of a Reduction are
// applied by ordered_reduce.h, not here.
//
//   sum, product   integers wrap around; float16 and bfloat16 in float32, rounded to nearest even; NaN stays NaN
//   min, max       exact; NaN if either is NaN, always the same positive quiet NaN; -0 is less than +0. So the result
//                  does not depend on the order of the operands
namespace farandole {

bool CanReduce(const Reduction& how);

// accumulate[i] = accumulate[i] combined with operand[i].
void Reduce(const Reduction& how, void* accumulate, const void* operand, int64_t count);

// out[i] = a[i] combined with b[i]. `out` may be the same address as `a` or `b`, but not overlap them otherwise.
void Reduce2(const Reduction& how, void* out, const void* a, const void* b, int64_t count);

// out[i] = in[i] * factor; `out` may be `in`. float64 and float32: product in double, rounded once. 16-bit floats:
// product in float32, rounded to nearest even. Integers: product in double, truncated toward zero; what the type
// cannot hold becomes its nearest value, NaN its smallest.
void ScaleCopy(DataType dtype, void* out, const void* in, int64_t count, double factor);
void ScaleInPlace(DataType dtype, void* data, int64_t count, double factor);

// 16-bit floats (IsHalf; else abort) to float32, exact, and back, rounded to nearest even.
void Widen(DataType dtype, float* out, const void* in, int64_t count);
void Narrow(DataType dtype, void* out, const float* in, int64_t count);

// The functions above by element type, in the form chosen once for this CPU; tests hold all forms against each other.
struct ReduceKernels {
  using Combine = void (*)(void* out, const void* a, const void* b, int64_t count);
  using Scale = void (*)(void* out, const void* in, int64_t count, double factor);
  // The conversions of one of the 16-bit floats.
  struct Half {
    void (*widen)(float* out, const void* in, int64_t count);
    void (*narrow)(void* out, const float* in, int64_t count);
  };
  static constexpr int kTypes = 11;
  // By element type; null where CanReduce is false.
  struct Table {
    Combine of[kTypes];
  };
  const char* name;
  Table sum, min, max, product;
  Scale scale[kTypes];  // null for bool
  Half float16, bfloat16;

  // Null: there is none.
  const Table* Find(ReduceOp op) const;

  static const ReduceKernels& Baseline();
  static const ReduceKernels& Best();
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_REDUCE_H_
