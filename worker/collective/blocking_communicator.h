#ifndef FARANDOLE_WORKER_COLLECTIVE_BLOCKING_COMMUNICATOR_H_
#define FARANDOLE_WORKER_COLLECTIVE_BLOCKING_COMMUNICATOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "proto/types.h"
#include "worker/arithmetic/reduction.h"
#include "worker/collective/batch_buffer.h"
#include "worker/collective/instance.h"
#include "worker/collective/piece.h"

namespace farandole::worker::collective {

// A medium whose calls block: the collectives among the members of one process set in one generation, on host memory.
// Behind BlockingAdapter it is a Communicator, whose instances and status codes it shares.
//
// Called by one thread at a time, and by all members in the same order with the same instance. Each call blocks until
// the result is in place, the peers' part fails, Withdraw, or Abort. After any other failure than CANCELLED the
// communicator is broken and every later call fails with the same status.
class BlockingCommunicator {
 public:
  virtual ~BlockingCommunicator() = default;

  // "shm", "tcp": for logs, status, the selector's table.
  virtual std::string name() const = 0;
  // Position of this worker among the members, and their number.
  virtual int position() const = 0;
  virtual int size() const = 0;

  // Tensors of more bytes together are better reduced in several calls: packed whole, they would leave the caches
  // before they are reduced and unpacked. The same on all members.
  virtual int64_t FusedBytesMax() const { return 4 << 20; }

  // Memory of at least `bytes`, 64-byte aligned, on which the collectives below work with the fewest copies. Valid
  // until the next call of Buffer. nullptr: it has none so large, bring your own.
  virtual void* Buffer(int64_t bytes) = 0;

  // data[i] = combination over members of data[i], in place, with the factors of `how`; all members get the same bits.
  // reduction.h says what is rounded when. Which members' elements are combined first may depend on the size of the
  // operand and of the group (schedule_table.h); in shared memory it is always the order of position. `count` in
  // elements, 0 allowed.
  virtual absl::Status Allreduce(const Instance& instance, const arithmetic::Reduction& how, void* data,
                                 int64_t count) = 0;

  // The same for tensors at places of their own, as if they lay one behind the other; inputs that are not outputs stay
  // as they are. No output changes before all members have come (D3). Here: by way of Buffer, or in place where that
  // costs less.
  virtual absl::Status AllreducePieces(const Instance& instance, const arithmetic::Reduction& how,
                                       absl::Span<const Piece> pieces);

  // Member m gets in `output` the combination of elements [sum of counts before m, + counts[m]) of the operands of all,
  // with the bits that Allreduce would give it in shared memory; over channels as schedule_table.h says. `data`, of as
  // many elements as all counts together, is used up; `output` may be the place of the own part in it, and does not
  // overlap it otherwise. Here: an allreduce, of which each keeps its own part.
  virtual absl::Status Reducescatter(const Instance& instance, const arithmetic::Reduction& how, void* data,
                                     void* output, const std::vector<int64_t>& counts);

  // This member sends send_bytes[m] bytes to member m and gets receive_bytes[m] from it, which is what m sends to it:
  // those for 0, 1, ... lie one behind the other in `input`, what comes from 0, 1, ... in `output`, which does not
  // overlap it. No member needs to know more, nor holds more of others' data than it passes on. RESOURCE_EXHAUSTED: no
  // memory for that.
  virtual absl::Status Alltoall(const Instance& instance, const void* input, void* output,
                                const std::vector<int64_t>& send_bytes, const std::vector<int64_t>& receive_bytes) = 0;

  // Member m contributes byte_counts[m] bytes; `output` receives all, in order of position. `input` may lie at its own
  // place inside `output`.
  virtual absl::Status Allgather(const Instance& instance, const void* input, void* output,
                                 const std::vector<int64_t>& byte_counts) = 0;

  // `data` of the member at position `root` is copied to all.
  virtual absl::Status Broadcast(const Instance& instance, int root, void* data, int64_t bytes) = 0;

  // Returns after every member has called it.
  virtual absl::Status Barrier(const Instance& instance) = 0;

  // As Communicator::Withdraw: an allreduce that ends with CANCELLED has changed nothing but its operand.
  virtual void Withdraw(const Instance& instance) = 0;

  // Any thread, never blocks, idempotent: ends the running and all later calls with ABORTED and this reason.
  virtual void Abort(const std::string& reason) = 0;

  // After a failure: the peer it points to, as a rank of the job.
  virtual Rank SuspectRank() const = 0;

  // Buffer, or plain memory if there is none so large; null: the process has no memory either.
  char* Scratch(int64_t bytes);

  // Whom buffers should tell that are often given to this communicator; null: it makes no difference.
  virtual BatchBuffer::Watcher* watcher() { return nullptr; }

 protected:
  // By who has a watcher: of its own scratch memory.
  void WatchScratch(BatchBuffer::Watcher* watcher) { plain_.Watch(watcher); }

 private:
  BatchBuffer plain_;
};

}  // namespace farandole::worker::collective

#endif  // FARANDOLE_WORKER_COLLECTIVE_BLOCKING_COMMUNICATOR_H_
