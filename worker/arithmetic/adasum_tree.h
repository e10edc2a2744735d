#ifndef FARANDOLE_WORKER_ARITHMETIC_ADASUM_TREE_H_
#define FARANDOLE_WORKER_ARITHMETIC_ADASUM_TREE_H_

#include <cstdint>

// The tree of an Adasum, from the dot products of its operands (adasum.h). Also compiled for GPUs, which have no
// standard library and want no calls.
namespace farandole::worker::arithmetic {

#define FARANDOLE_INLINED inline __attribute__((always_inline))

// Of so many operands there are so many dot products: that of operands i and j <= i at i * (i + 1) / 2 + j.
FARANDOLE_INLINED int64_t AdasumProducts(int operands) { return int64_t{operands} * (operands + 1) / 2; }

FARANDOLE_INLINED double AdasumProductOf(const double* products, int i, int j) {
  return i >= j ? products[i * (i + 1) / 2 + j] : products[j * (j + 1) / 2 + i];
}

// Of two results of the tree: the operands [begin, end) of each, with their weights so far. `terms`: the sum of the
// magnitudes that made up the value, where somebody wants to know.
FARANDOLE_INLINED double AdasumNodeProduct(const double* products, const double* weights, const int (&a)[2],
                                           const int (&b)[2], double* terms) {
  double value = 0, magnitude = 0;
  for (int i = a[0]; i < a[1]; ++i) {
    for (int j = b[0]; j < b[1]; ++j) {
      value += weights[i] * weights[j] * AdasumProductOf(products, i, j);
      magnitude += __builtin_fabs(weights[i] * weights[j]) * __builtin_sqrt(AdasumProductOf(products, i, i)) *
                   __builtin_sqrt(AdasumProductOf(products, j, j));
    }
  }
  *terms = magnitude;
  return value;
}

// What becomes of the weights of a result beside another; `square`: of its norm.
FARANDOLE_INLINED double AdasumFactor(double square, double product) {
  return square == 0 ? 1 : 1 - product / (2 * square);
}

// The weight of each of so many operands in the result; `squares`: as many numbers of scratch memory.
FARANDOLE_INLINED void FillAdasumWeights(const double* products, int operands, double* weights, double* squares) {
  for (int i = 0; i < operands; ++i) {
    weights[i] = 1;
    squares[i] = AdasumProductOf(products, i, i);
  }
  // A result begins at a multiple of its width, and its square is kept there.
  for (int width = 1; width < operands; width *= 2) {
    for (int begin = 0; begin + width < operands; begin += 2 * width) {
      const int end = begin + 2 * width < operands ? begin + 2 * width : operands;
      const int a[2] = {begin, begin + width}, b[2] = {begin + width, end}, joined[2] = {begin, end};
      double terms;
      const double product = AdasumNodeProduct(products, weights, a, b, &terms);
      const double of_a = AdasumFactor(squares[a[0]], product), of_b = AdasumFactor(squares[b[0]], product);
      for (int i = a[0]; i < a[1]; ++i) weights[i] *= of_a;
      for (int i = b[0]; i < b[1]; ++i) weights[i] *= of_b;
      const double square = AdasumNodeProduct(products, weights, joined, joined, &terms);
      // Below that it is what rounding left over.
      const double least = 64 * __DBL_EPSILON__ * terms;
      squares[begin] = square <= least ? 0 : square;
    }
  }
}

}  // namespace farandole::worker::arithmetic

#endif  // FARANDOLE_WORKER_ARITHMETIC_ADASUM_TREE_H_
