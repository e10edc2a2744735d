#ifndef FARANDOLE_WORKER_KERNELS_ADASUM_H_
#define FARANDOLE_WORKER_KERNELS_ADASUM_H_

#include <cstdint>

#include "worker/arithmetic/adasum_tree.h"
#include "worker/arithmetic/half.h"
#include "worker/kernels/adasum_call.h"
#include "worker/kernels/memory.h"
#include "worker/kernels/move.h"

// The parts of an Adasum (worker/arithmetic/adasum.h) on one member's share of all elements, for host and device: dot
// products of the members' operands, the weights that follow, and the sum of the weighted operands. All in double, and
// rounded once.
namespace farandole::worker::kernels {

// A type of elements as its bits, to and from double; 16-bit ones by way of float32.
template <float (*kWiden)(uint16_t), uint16_t (*kNarrow)(float)>
struct HalfReals {
  using Bits = uint16_t;
  static double Widened(Bits bits) { return kWiden(bits); }
  static Bits Narrowed(double value) { return kNarrow(static_cast<float>(value)); }
};
using Float16Reals = HalfReals<&arithmetic::FloatFromFloat16, &arithmetic::Float16FromFloat>;
using Bfloat16Reals = HalfReals<&arithmetic::FloatFromBfloat16, &arithmetic::Bfloat16FromFloat>;

struct Float32Reals {
  using Bits = uint32_t;
  static double Widened(Bits bits) { return arithmetic::FloatFromBits(bits); }
  static Bits Narrowed(double value) { return arithmetic::BitsFromFloat(static_cast<float>(value)); }
};

struct Float64Reals {
  using Bits = uint64_t;
  static double Widened(Bits bits) {
    double value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
  }
  static Bits Narrowed(double value) {
    Bits bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
  }
};

// The sum over the lanes of a group, at its first lane at least; on the host a group has one.
FARANDOLE_ALWAYS_INLINE double SumOfLanes(double value) {
#ifdef __CUDA_ARCH__
  FARANDOLE_UNROLL for (int distance = 16; distance > 0; distance /= 2) {
    uint32_t words[2], others[2];
    __builtin_memcpy(words, &value, sizeof value);
    FARANDOLE_UNROLL for (int i = 0; i < 2; ++i) {
      asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, -1;" : "=r"(others[i]) : "r"(words[i]), "r"(distance));
    }
    double other;
    __builtin_memcpy(&other, others, sizeof other);
    value += other;
  }
#endif
  return value;
}

FARANDOLE_ALWAYS_INLINE void AddTo(double* sum, double value) {
#ifdef __CUDA_ARCH__
  asm volatile("red.global.add.f64 [%0], %1;" ::"l"(sum), "d"(value) : "memory");
#else
  *sum += value;
#endif
}

template <typename Reals>
FARANDOLE_ALWAYS_INLINE double OperandAt(const AdasumCall& call, int member, int64_t element) {
  using Bits = typename Reals::Bits;
  return Reals::Widened(Load<Aligned<Bits>>(call.operands + (member * call.count + element) * sizeof(Bits)));
}

// Calls `visit(piece, begin, end)` for what a group's chunks have of each piece.
template <typename Visit>
FARANDOLE_ALWAYS_INLINE void ForEachRun(const AdasumCall& call, int64_t chunk, const Share& share, const Visit& visit) {
  for (int64_t at = share.group * chunk; at < call.count; at += share.groups * chunk) {
    const int64_t stop = call.count - at < chunk ? call.count : at + chunk;
    int64_t begin = at;
    for (int32_t index = PieceAt(call.table, call.pieces, at); begin < stop && index < call.pieces; ++index) {
      const int64_t end = call.table[index].end < stop ? call.table[index].end : stop;
      if (end > begin) visit(index, begin, end);
      if (end > begin) begin = end;
    }
  }
}

// Adds the dot products of the elements of each piece to its own, which begin as zeros. The order in which groups come
// is not defined.
template <typename Reals>
FARANDOLE_ALWAYS_INLINE void AddAdasumProducts(const AdasumCall& call, int64_t chunk, const Share& share) {
  ForEachRun(call, chunk, share, [&](int32_t piece, int64_t begin, int64_t end) {
    double* sum = call.products + piece * arithmetic::AdasumProducts(call.members);
    for (int i = 0; i < call.members; ++i) {
      for (int j = 0; j <= i; ++j) {
        double product = 0;
        for (int64_t at = begin + share.lane; at < end; at += share.lanes) {
          product += OperandAt<Reals>(call, i, at) * OperandAt<Reals>(call, j, at);
        }
        product = SumOfLanes(product);
        if (share.lane == 0) AddTo(sum, product);
        ++sum;
      }
    }
  });
}

// A lane a piece.
FARANDOLE_ALWAYS_INLINE void FillWeights(const AdasumCall& call, const Share& share) {
  for (int64_t piece = share.group * share.lanes + share.lane; piece < call.pieces;
       piece += share.groups * share.lanes) {
    double* const weights = call.weights + 2 * piece * call.members;
    arithmetic::FillAdasumWeights(call.products + piece * arithmetic::AdasumProducts(call.members), call.members,
                                  weights, weights + call.members);
    for (int m = 0; m < call.members; ++m) weights[m] *= call.table[piece].factor;
  }
}

template <typename Reals>
FARANDOLE_ALWAYS_INLINE void AddWeighted(const AdasumCall& call, int64_t chunk, const Share& share) {
  ForEachRun(call, chunk, share, [&](int32_t piece, int64_t begin, int64_t end) {
    const double* const weights = call.weights + 2 * piece * call.members;
    for (int64_t at = begin + share.lane; at < end; at += share.lanes) {
      double sum = weights[0] * OperandAt<Reals>(call, 0, at);
      for (int m = 1; m < call.members; ++m) sum += weights[m] * OperandAt<Reals>(call, m, at);
      Store<Aligned<typename Reals::Bits>>(call.out + at * sizeof(typename Reals::Bits), Reals::Narrowed(sum));
    }
  });
}

}  // namespace farandole::worker::kernels

// Every type that has an Adasum: the ends of its kernels' names, the type, and what becomes of elements.
#define FARANDOLE_ADASUM_KERNELS(KERNEL)     \
  KERNEL(float16, kFloat16, Float16Reals)    \
  KERNEL(bfloat16, kBfloat16, Bfloat16Reals) \
  KERNEL(float32, kFloat32, Float32Reals)    \
  KERNEL(float64, kFloat64, Float64Reals)

#endif  // FARANDOLE_WORKER_KERNELS_ADASUM_H_
