#ifndef FARANDOLE_WORKER_ARITHMETIC_REDUCE_KERNELS_H_
#define FARANDOLE_WORKER_ARITHMETIC_REDUCE_KERNELS_H_

#include <cstdint>

#include "proto/types.h"

namespace farandole::worker::arithmetic {

// What one pass over memory does: every result becomes postscale * (mean * combination of (prescale * operand)), the
// operands taken in their order. At least one of both. A result is an operand or overlaps none of them. Any alignment.
struct Combination {
  const char* const* operands = nullptr;
  int operand_count = 0;
  char* const* results = nullptr;
  int result_count = 0;
  int64_t count = 0;  // elements
  // Floating-point types only; reduction.h has the rounding.
  double prescale = 1;
  double postscale = 1;
  double mean = 1;
  // Write the results past the caches, where they can be: for results that are no operands.
  bool stream = false;
};

// The passes by operation and element type, for one instruction set. All forms give the same bits.
struct ReduceKernels {
  using Combine = void (*)(const Combination&);
  // A 16-bit float type to and from float32.
  struct Conversions {
    void (*widen)(float* out, const void* in, int64_t count);
    void (*narrow)(void* out, const float* in, int64_t count);
  };
  static constexpr int kTypes = 11;
  // By element type.
  struct Table {
    Combine of[kTypes];
  };
  const char* name;
  Table sum, min, max, product;
  Conversions float16, bfloat16;

  // Null: there is none.
  const Table* Find(ReduceOp op) const {
    switch (op) {
      case ReduceOp::kSum:
        return &sum;
      case ReduceOp::kMin:
        return &min;
      case ReduceOp::kMax:
        return &max;
      case ReduceOp::kProduct:
        return &product;
      default:
        return nullptr;
    }
  }
};

}  // namespace farandole::worker::arithmetic

#endif  // FARANDOLE_WORKER_ARITHMETIC_REDUCE_KERNELS_H_
