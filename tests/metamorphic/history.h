#ifndef FARANDOLE_TESTS_METAMORPHIC_HISTORY_H_
#define FARANDOLE_TESTS_METAMORPHIC_HISTORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "worker/arithmetic/reduction.h"

namespace farandole::metamorphic {

// One collective as all members call it. Operands follow from it and the position alone.
struct Call {
  enum class Kind { kAllreduce, kReducescatter, kAllgather, kBroadcast, kAlltoall, kBarrier };
  // kSmall: whole numbers whose combinations are exact in every type. kAny: everything that the type has, of sizes that
  // do not overflow. kSpecial: NaN, infinities and zeros of both signs among others, for minimum and maximum.
  enum class Fill { kSmall, kAny, kSpecial };

  Kind kind = Kind::kBarrier;
  worker::arithmetic::Reduction how = DataType::kUint8;
  Fill fill = Fill::kSmall;
  // In elements. Allreduce and broadcast: one number. Reducescatter and allgather: of each member. Alltoall: the
  // matrix.
  std::vector<int64_t> counts;
  int root = 0;
  // Operands lie in the communicator's buffer, if it has one so large.
  bool in_buffer = false;
  // Of an allreduce: so many tensors at places of their own hold its elements, and their results are elsewhere. 0: one
  // operand, whose place its result takes.
  int pieces = 0;
  uint64_t seed = 0;

  bool reduces() const { return kind == Kind::kAllreduce || kind == Kind::kReducescatter; }
};

// "allreduce product float16 times 0.5 and 4, small, 97 elements".
std::string ToString(const Call& call);

// So many calls among `ranks` members with counts up to `count_max`, the same for the same seed.
std::vector<Call> RandomHistory(uint64_t seed, int ranks, int calls, int64_t count_max);

// What the member at `position` brings: its elements one behind the other. Of a broadcast, also who is not the root.
std::vector<char> OperandOf(const Call& call, int position, int ranks);

}  // namespace farandole::metamorphic

#endif  // FARANDOLE_TESTS_METAMORPHIC_HISTORY_H_
