#ifndef FARANDOLE_WORKER_COLLECTIVE_COLLECTIVE_H_
#define FARANDOLE_WORKER_COLLECTIVE_COLLECTIVE_H_

#include <cstdint>
#include <variant>
#include <vector>

#include "proto/types.h"
#include "worker/arithmetic/reduction.h"
#include "worker/collective/piece.h"
#include "worker/device/device.h"
#include "worker/device/phases.h"

// One collective as a value: what a member gives to it. Positions, counts of other members, types and factors are the
// same on all members; memory is each one's own and stays the caller's until the collective has ended.
namespace farandole::worker::collective {

// What a tensor is multiplied with outside of the combination: integers, whose average is exact, and tensors of other
// factors than those beside them. reduction.h says what is rounded when.
struct Scale {
  ReduceOp op = ReduceOp::kSum;  // kAverage: a mean comes on top
  double prescale = 1;
  double postscale = 1;
};

// Every piece's output becomes the combination over members of its inputs; the order of combination may depend on the
// sizes of the operand and of the group (schedule_table.h), all get the same bits. Inputs that are not outputs stay as
// they are; no output changes before all members have come (D3).
struct Allreduce {
  arithmetic::Reduction how;
  std::vector<Piece> pieces;
  // For each piece, and `how` has no factors then; or none.
  std::vector<Scale> scales = {};
};

// Every piece is a layer of its own; its output becomes its factor times the Adasum of its inputs.
struct Adasum {
  DataType dtype;
  std::vector<Piece> pieces;
  std::vector<double> factors;
};

// Member m gets in `output` the combination of elements [sum of counts before m, + counts[m]) of the inputs, with the
// bits that an allreduce in shared memory would give it. The input stays as it is and does not overlap the output.
struct Reducescatter {
  arithmetic::Reduction how;
  const void* input = nullptr;
  void* output = nullptr;
  std::vector<int64_t> counts = {};
  // Of the integers, otherwise nothing.
  Scale scale = {};
};

// Member m contributes byte_counts[m] bytes; `output` receives all, in order of position. The input may lie at its own
// position inside the output.
struct Allgather {
  const void* input = nullptr;
  void* output = nullptr;
  std::vector<int64_t> byte_counts = {};
};

// This member sends send_bytes[m] bytes to member m and gets receive_bytes[m] from it, which is what m sends to it:
// those for 0, 1, ... lie one behind the other in `input`, what comes from 0, 1, ... in `output`, which does not
// overlap it. These two counts are each member's own.
struct Alltoall {
  const void* input = nullptr;
  void* output = nullptr;
  std::vector<int64_t> send_bytes = {};
  std::vector<int64_t> receive_bytes = {};
};

// The root's input is copied to all outputs, its own among them; it may be its output.
struct Broadcast {
  int root = 0;  // position
  const void* input = nullptr;
  void* output = nullptr;
  int64_t bytes = 0;
};

// Ends after every member has started it.
struct Barrier {};

struct Collective {
  std::variant<Allreduce, Adasum, Reducescatter, Allgather, Alltoall, Broadcast, Barrier> what = Barrier();
  // Where all of its memory lies.
  DeviceKind memory = DeviceKind::kHost;
  // Of a device's memory: which one, null if this member only adds zeros, and the moments that have to come before
  // anything of it is touched.
  device::Device* device = nullptr;
  std::vector<device::EventPtr> ready = {};
  // Where the times on the device go before the end is told; null: nobody asks.
  device::Phases* phases = nullptr;
};

// What the selector's table asks. Of an Adasum: kAllreduce.
OpKind OpOf(const Collective& collective);
// What decides how it is best done, the same on all members: of reductions and allgathers the bytes of all that is
// combined or gathered, of a broadcast what is copied, otherwise 0.
int64_t BytesOf(const Collective& collective);

}  // namespace farandole::worker::collective

#endif  // FARANDOLE_WORKER_COLLECTIVE_COLLECTIVE_H_
