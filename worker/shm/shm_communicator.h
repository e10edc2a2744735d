#ifndef FARANDOLE_WORKER_SHM_SHM_COMMUNICATOR_H_
#define FARANDOLE_WORKER_SHM_SHM_COMMUNICATOR_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "worker/collective/batch_buffer.h"
#include "worker/collective/blocking_communicator.h"
#include "worker/collective/bootstrap.h"
#include "worker/collective/group.h"
#include "worker/collective/piece.h"
#include "worker/shm/peer_memory.h"
#include "worker/shm/shared_memory.h"
#include "worker/shm/shm_buffers.h"
#include "worker/shm/shm_segment.h"
#include "worker/shm/shm_sync.h"

namespace farandole::worker::shm {

// The same on all members of a group.
struct ShmOptions {
  // The most that Buffer can hand out, per rank; less if the members' buffers together would exceed the second bound.
  int64_t buffer_bytes = 128 << 20;
  int64_t buffers_total_bytes = int64_t{1} << 30;
  // One of the two pieces per rank through which operands outside the segment pass.
  int64_t chunk_bytes = 256 << 10;
  // Up to here operands that lie elsewhere are copied to the buffer: two phases. From here on the passes over memory
  // cost more than the phases of going through chunks; see bench_allreduce.
  int64_t packed_bytes_max = 2 << 20;
  // This process's memory that others can map; null: there is none. Must outlive the communicator.
  SharedMemory* memory = nullptr;
  // Test seam: CPUs that the ranks may use together; 0: ask the affinity masks and the cgroup.
  double cpus = 0;
};

// Collectives among ranks of one host through a shared segment. Steps and bytes for an operand of B bytes on N ranks:
//   tiny        one phase; everybody sums what lies beside the flags
//   in buffer   two phases; each rank reads its share of B/N from all operands and writes the sum to all, no copy
//   in memory   the same with tensors at the same places of all ranks' SharedMemory, however many
//   elsewhere   the same by way of chunks that stay in the caches, however many tensors fill them: copy in, sum, copy
//               out, a phase per chunk and one more
// A reducescatter in buffers reads its part from all operands and writes the result once; an alltoall says beside the
// flags how much goes to whom, 8 N bytes, and each copies its blocks out of buffers or chunks; what is small lies
// there, too, and takes one phase. The sum of every element is taken in order of position, by one rule, so all ranks
// get the same bits in every run.
//
// Everything that a rank writes for others alternates between two places, see ShmSync. A peer that aborts ends
// the others' calls; one that dies leaves them waiting until Abort or the time limit: the control plane knows of
// deaths.
class ShmCommunicator : public collective::BlockingCommunicator {
 public:
  static constexpr int kRanksMax = 64;

  // `bootstrap` must outlive the communicator. Blocks until all members have a part of the segment, or the agreement
  // that one of them has none:
  //   UNAVAILABLE        at least one member cannot have it, with the reason; the same answer on all members, so that
  //                      they can go on together with another communicator
  //   anything else      the control plane failed; members may differ
  static absl::StatusOr<std::unique_ptr<ShmCommunicator>> Create(const collective::Group& group,
                                                                 collective::Bootstrap* bootstrap,
                                                                 const ShmOptions& options);

  std::string name() const override { return "shm"; }
  int position() const override { return group_.position; }
  int size() const override { return static_cast<int>(group_.members.size()); }
  // Chunks are filled from any number of tensors, and tensors in SharedMemory are not packed at all.
  int64_t FusedBytesMax() const override { return INT64_MAX; }
  void* Buffer(int64_t bytes) override;
  // As BatchBuffer::Watch, of the memory that Buffer hands out: for a layer above that gives it to another medium.
  void WatchBuffer(collective::BatchBuffer::Watcher* watcher) { buffers_.Watch(watcher); }
  absl::Status Allreduce(const collective::Instance& instance, const arithmetic::Reduction& how, void* data,
                         int64_t count) override;
  absl::Status AllreducePieces(const collective::Instance& instance, const arithmetic::Reduction& how,
                               absl::Span<const collective::Piece> pieces) override;
  absl::Status Reducescatter(const collective::Instance& instance, const arithmetic::Reduction& how, void* data,
                             void* output, const std::vector<int64_t>& counts) override;
  absl::Status Alltoall(const collective::Instance& instance, const void* input, void* output,
                        const std::vector<int64_t>& send_bytes, const std::vector<int64_t>& receive_bytes) override;
  absl::Status Allgather(const collective::Instance& instance, const void* input, void* output,
                         const std::vector<int64_t>& byte_counts) override;
  // As Allgather among members of which each has its own bytes at their place in `data`, for a caller who only passes
  // them on: what all contributed goes to `take`, in order of position, some bytes at a time, from where it lies. Of
  // `data` anything but the own bytes may be overwritten. `take` runs inside the call.
  using Take = std::function<void(const char* from, int64_t bytes)>;
  absl::Status AllgatherTo(const collective::Instance& instance, char* data, const std::vector<int64_t>& byte_counts,
                           const Take& take);
  absl::Status Broadcast(const collective::Instance& instance, int root, void* data, int64_t bytes) override;
  absl::Status Barrier(const collective::Instance& instance) override;
  // Until all ranks have passed the first phase of a collective, operands have only been read.
  void Withdraw(const collective::Instance& instance) override;
  void Abort(const std::string& reason) override { GiveUp(reason, Rank()); }
  // As Abort; the others, whose calls end with UNAVAILABLE, are told that `suspect` is to blame, a rank of the job.
  void GiveUp(const std::string& reason, Rank suspect);
  Rank SuspectRank() const override;

 private:
  // Where the operands of all ranks lie.
  enum class Places { kMemory, kBuffers, kElsewhere, kMixed };
  using Operands = absl::InlinedVector<char*, kRanksMax>;

  // What this rank brings to an allreduce.
  struct Operand {
    ShmPlace place;
    // In SharedMemory.
    absl::optional<SharedMemory::Layout> layout;
    // Where all pieces have been copied to; null: they are where they were.
    char* packed = nullptr;
  };

  ShmCommunicator(const collective::Group& group, ShmSegment segment, double cpus, collective::Bootstrap* bootstrap,
                  const ShmOptions& options);

  absl::Status Begin(const char* what, const collective::Instance& instance, uint32_t check);
  // One phase, publishing where the own operand lies.
  absl::Status Step(ShmPlace place = ShmPlace());
  // After it: where that of `rank` lies.
  ShmPlace PlaceOf(int rank) const;
  absl::Status Fail(const ShmSync::Result& result);
  // A member that takes no part any more.
  absl::Status Gone(int rank);
  // The communicator is broken from now on; returns what broke it first.
  absl::Status Break(const absl::Status& status, Rank suspect);
  Places PlacesOfAll() const;
  bool AnyInMemory() const;
  // Where the operands of all ranks lie, of `bytes_of` bytes each, if all lie in buffers.
  absl::StatusOr<Operands> OperandsOfAll(const std::vector<int64_t>& bytes_of);

  absl::Status AllreduceTiny(const arithmetic::Reduction& how, absl::Span<const collective::Piece> pieces,
                             int64_t count);
  // Ranks publish where their operands lie until all lie in places of one kind; who must give way copies.
  absl::Status AllreducePlaced(const arithmetic::Reduction& how, absl::Span<const collective::Piece> pieces,
                               int64_t count);
  absl::StatusOr<Operand> Place(DataType dtype, absl::Span<const collective::Piece> pieces, int64_t bytes);
  absl::StatusOr<Operand> Packed(DataType dtype, absl::Span<const collective::Piece> pieces, int64_t bytes);
  absl::Status AllreduceInMemory(const arithmetic::Reduction& how, const SharedMemory::Layout& layout,
                                 absl::Span<const collective::Piece> pieces, int64_t count);
  absl::Status AllreduceInBuffers(const arithmetic::Reduction& how, int64_t count);
  // The first chunk has been copied in, from where `in` has come by that, and published.
  absl::Status AllreduceChunks(const arithmetic::Reduction& how, collective::PieceWalk in, collective::PieceWalk out,
                               int64_t count);
  // This rank's share of the combination of all operands, written to all.
  void ReduceOwnShare(const arithmetic::Reduction& how, Operands operands, int64_t count);
  // What comes from a rank: it lies behind `before` of the `sent` bytes that it sends to all, and goes to `to`.
  struct AlltoallPart {
    int64_t before, sent, bytes;
    char* to;
  };
  using AlltoallParts = std::vector<AlltoallPart>;
  // By way of the chunks; each reads of them what is meant for it.
  absl::Status AlltoallChunks(const char* input, int64_t own, const AlltoallParts& parts);
  // To `output`, or to `take` if it is not null.
  absl::Status Gather(const collective::Instance& instance, const char* input, char* output,
                      const std::vector<int64_t>& byte_counts, const Take* take);
  absl::Status GatherTiny(const char* input, char* output, const std::vector<int64_t>& byte_counts);
  absl::Status GatherFromBuffers(const char* input, char* output, const std::vector<int64_t>& byte_counts,
                                 const Take* take);
  // The first piece has been copied in and published.
  absl::Status GatherChunks(const char* input, char* output, const std::vector<int64_t>& byte_counts);

  const collective::Group group_;
  const ShmSegment segment_;
  ShmSync sync_;
  ShmBuffers buffers_;
  SharedMemory* const memory_;
  PeerMemory peer_memory_;
  const int64_t tiny_bytes_;  // up to here operands travel beside the flags
  const int64_t chunk_bytes_;
  const int64_t packed_bytes_max_;
  // Which of the two chunks comes next; the same on all ranks.
  int which_ = 0;
  const char* what_ = "";

  mutable absl::Mutex mutex_;
  absl::Status failed_ ABSL_GUARDED_BY(mutex_);
  Rank suspect_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> broken_{false};
};

}  // namespace farandole::worker::shm

#endif  // FARANDOLE_WORKER_SHM_SHM_COMMUNICATOR_H_
