#ifndef FARANDOLE_WORKER_NCCL_LOWERING_H_
#define FARANDOLE_WORKER_NCCL_LOWERING_H_

#include <cstdint>
#include <vector>

#include "proto/types.h"
#include "worker/arithmetic/reduction.h"
#include "worker/collective/collective.h"
#include "worker/cuda/nccl_abi.h"

// What NCCL is asked for where a script asks for a collective: pure.
//
// Everything here but layouts follows from what is the same on all members. So all of them call NCCL with one type,
// operation and count, also a member that adds zeros.
namespace farandole::worker::nccl {

// The products outside of NCCL of one tensor: as kernels::MovePiece.
struct Factors {
  double factor = 1;
  double mean = 1;
  int32_t divisor = 1;

  bool none() const { return factor == 1 && mean == 1 && divisor == 1; }
};

// How a combination is done.
struct Lowering {
  // Of the elements that NCCL sees; another one than the tensors' where NCCL lacks that.
  DataType type;
  cuda::ncclRedOp_t op = cuda::ncclSum;
  // Not 1: NCCL multiplies every operand with it before it adds them up. Of floating-point numbers but float16, and a
  // power of two: an average of 2^n ranks needs no kernel of ours.
  double operand_factor = 1;
  // For each tensor, or none: before NCCL, and after it.
  std::vector<Factors> before = {};
  std::vector<Factors> after = {};

  // Whether tensors have to be moved, wherever they lie.
  bool Moves(DataType of_tensors) const { return type != of_tensors || !before.empty() || !after.empty(); }
};

// `scales` and `tensors` as in collective::Allreduce; `size`: members.
Lowering Lower(const arithmetic::Reduction& how, const std::vector<collective::Scale>& scales, size_t tensors,
               int size);

// For the type of a Lowering, and to move bytes.
cuda::ncclDataType_t NcclType(DataType type);

// Where tensors lie, if that is one behind the other. Null: not so.
struct Layout {
  const void* input = nullptr;
  void* output = nullptr;
};
Layout LayoutOf(DataType dtype, const std::vector<collective::Piece>& pieces);

// Whether all inputs can be moved to `output`, where the outputs lie one behind the other, in any order: an input lies
// just at its own output, or outside of them all.
bool InputsAreApart(DataType dtype, const std::vector<collective::Piece>& pieces, const void* output);

}  // namespace farandole::worker::nccl

#endif  // FARANDOLE_WORKER_NCCL_LOWERING_H_
