#ifndef FARANDOLE_WORKER_ARITHMETIC_ADASUM_H_
#define FARANDOLE_WORKER_ARITHMETIC_ADASUM_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "proto/types.h"
#include "worker/arithmetic/adasum_tree.h"

// Adasum (Maleki et al., "Scaling Distributed Training with Adaptive Summation", MLSys 2021): of two gradients a, b
//   (1 - a.b / 2|a|^2) a + (1 - a.b / 2|b|^2) b
// which is their sum where they are orthogonal and their mean where they are equal. Of more: neighbours by position are
// combined, then neighbours of these results, and so on; who has no neighbour goes on as it is, so that any number of
// operands will do (for powers of two this is the tree of the paper).
//
// Every result of that tree is a linear combination of the operands, and every dot product in it follows from those of
// the operands. So two passes over memory do: one for the dot products, in double, one for the result, which is
// combined in double and rounded once. A sum in the tree that cancels to less than about 1e-7 of its terms is taken to
// have no direction of its own, like a zero: what is left of it is added as it is.
namespace farandole::worker::arithmetic {

// float16, bfloat16, float32, float64. To ask the functions below for another is a bug of ours (abort).
bool HasAdasum(DataType dtype);

// Adds the dot products of so many elements of the operands, in double, as AdasumProducts numbers them. Any order of
// parts gives the same up to rounding. A NaN, or a square beyond double, makes the results NaN.
void AddDotProducts(DataType dtype, absl::Span<const char* const> operands, int64_t count, absl::Span<double> products);

// The weight of each operand in the result.
std::vector<double> AdasumWeights(absl::Span<const double> products, int operands);

// out = sum of weight * operand. `out` may be an operand, but not overlap them otherwise.
void WeightedSum(DataType dtype, absl::Span<const char* const> operands, absl::Span<const double> weights, char* out,
                 int64_t count);

}  // namespace farandole::worker::arithmetic

#endif  // FARANDOLE_WORKER_ARITHMETIC_ADASUM_H_
