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
// Everything here but where tensors lie follows from what is the same on all members. So all of them call NCCL with the
// same types, operations and counts, also a member that adds zeros.
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

// Tensors of a batch one behind the other. NCCL and our kernels move 16 bytes at a time only from addresses that are
// multiples of that, so each begins at one. What is left out before the next may be somebody's: a call ends there.
struct Layout {
  struct Call {
    int64_t begin;  // in bytes, as all offsets
    int64_t count;  // elements
  };
  std::vector<int64_t> begins;  // of each tensor
  std::vector<Call> calls;
  int64_t bytes = 0;
};
// Of elements of `type`.
Layout LayOut(DataType type, const std::vector<collective::Piece>& pieces);

// Where tensors begin that lie so already. Null: they do not.
struct Laid {
  const void* input = nullptr;
  void* output = nullptr;
};
Laid FindLaid(const Layout& layout, const std::vector<collective::Piece>& pieces);

// Whether all inputs, of elements of `type`, can be moved to `output`, where the outputs lie so, in any order: an input
// lies just at its own output, or outside of them all.
bool InputsAreApart(DataType type, const Layout& layout, const std::vector<collective::Piece>& pieces,
                    const void* output);

}  // namespace farandole::worker::nccl

#endif  // FARANDOLE_WORKER_NCCL_LOWERING_H_
