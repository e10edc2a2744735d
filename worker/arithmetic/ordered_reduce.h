#ifndef FARANDOLE_WORKER_ARITHMETIC_ORDERED_REDUCE_H_
#define FARANDOLE_WORKER_ARITHMETIC_ORDERED_REDUCE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "worker/arithmetic/reduction.h"

// Combines the operands of several ranks, ((r0 + r1) + r2) + ..., with the factors of the reduction (reduction.h says
// what is rounded when): the same bits wherever and however often they are computed. One pass over memory.
namespace farandole::worker::arithmetic {

// out = combination of sources. At least one source; `out` may be one of them, but not overlap them otherwise.
void OrderedReduce(const Reduction& how, absl::Span<const char* const> sources, char* out, int64_t count);

// Every operand becomes the combination of all operands. At least one; they do not overlap.
void OrderedReduceToAll(const Reduction& how, absl::Span<char* const> operands, int64_t count);

}  // namespace farandole::worker::arithmetic

#endif  // FARANDOLE_WORKER_ARITHMETIC_ORDERED_REDUCE_H_
