#ifndef FARANDOLE_WORKER_NCCL_LOWERING_H_
#define FARANDOLE_WORKER_NCCL_LOWERING_H_

#include <array>
#include <cstdint>
#include <optional>
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
  // power of two: a small average of 2^n ranks needs no kernel of ours.
  double operand_factor = 1;
  // For each tensor, or none: before NCCL, and after it.
  std::vector<Factors> before = {};
  std::vector<Factors> after = {};

  // Whether tensors have to be moved, wherever they lie.
  bool Moves(DataType of_tensors) const { return type != of_tensors || !before.empty() || !after.empty(); }
};

// `scales` and `tensors` as in collective::Allreduce; `size`: members; `bytes`: of all tensors. Of more than
// kFactorBytesMax NCCL is asked for a plain sum, since that is all that switches add up (NVLS).
inline constexpr int64_t kFactorBytesMax = 256 << 10;
Lowering Lower(const arithmetic::Reduction& how, const std::vector<collective::Scale>& scales, size_t tensors, int size,
               int64_t bytes);

// For the type of a Lowering, and to move bytes.
cuda::ncclDataType_t NcclType(DataType type);

// The tensors of a batch, of one type, in at most two runs, each reduced by one call. NCCL and our kernels move 16
// bytes at a time only where addresses are multiples of that, or differ by one. So those whose bytes are a multiple of
// 16 lie one behind the other, and apart from them the odd ones, behind which nothing else would begin so.
struct Layout {
  struct Run {
    int64_t count = 0;  // elements
    int64_t bytes = 0;
  };
  static constexpr int kWhole = 0, kOdd = 1;

  // Where a tensor begins, in bytes from the beginning of its run.
  struct Spot {
    int run;
    int64_t begin;
  };
  std::vector<Spot> spots;  // of each
  std::array<Run, 2> runs;

  int64_t bytes() const { return runs[kWhole].bytes + runs[kOdd].bytes; }
};
Layout LayOut(DataType type, const std::vector<collective::Piece>& pieces);

// Where the runs of a layout begin. Null where one has no elements.
using Bases = std::array<char*, 2>;

// Where both are, one behind the other, from `begin` on.
Bases BasesAt(const Layout& layout, void* begin);
// Of one tensor that has elements.
char* SpotAt(const Bases& bases, const Layout::Spot& spot);

// Where tensors are that lie so already, as far as they do. The inputs are only read.
struct Laid {
  std::optional<Bases> input;
  std::optional<Bases> output;
};
Laid FindLaid(const Layout& layout, const std::vector<collective::Piece>& pieces);

// Whether all inputs, of elements of `type`, can be moved to `output`, where the outputs lie so, in any order: an input
// lies just at its own output, or outside of them all.
bool InputsAreApart(DataType type, const Layout& layout, const std::vector<collective::Piece>& pieces,
                    const Bases& output);

}  // namespace farandole::worker::nccl

#endif  // FARANDOLE_WORKER_NCCL_LOWERING_H_
