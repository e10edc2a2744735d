#ifndef FARANDOLE_WORKER_HIER_HIERARCHICAL_COMMUNICATOR_H_
#define FARANDOLE_WORKER_HIER_HIERARCHICAL_COMMUNICATOR_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "transport/transport.h"
#include "worker/collective/batch_buffer.h"
#include "worker/collective/blocking_communicator.h"
#include "worker/collective/bootstrap.h"
#include "worker/collective/group.h"
#include "worker/collective/host_map.h"
#include "worker/collective/piece.h"
#include "worker/collective/share.h"
#include "worker/hier/across_thread.h"
#include "worker/hier/hierarchical_setup.h"
#include "worker/hier/passage.h"

namespace farandole::worker::hier {

// Collectives of members on several hosts: shared memory among those of a host, channels across hosts. With B bytes, H
// hosts of L members:
//   small allreduce, or uneven hosts   allreduce in the host; the leaders' allreduce; leaders tell their hosts
//   large allreduce, even hosts        each member sums B/L of its host's operands, then these with the other hosts'
//                                      members of its local number, then all gather: each sends 2(H-1)/H of B/L. In
//                                      parts: one crosses hosts while the next is summed, and the former gathered
//   allgather                          gather in the host, leaders gather from leaders and tell their hosts
//   broadcast                          in the root's host to who goes across, across, in the other hosts; in parts, too
//   alltoall                           in the host to those who go across, across, and from there: each byte crosses
//                                      hosts once, and not at all if it need not. Before it, in the host, how much:
//                                      8 H bytes from each to each who goes across, or 16 H L to the leader (uneven)
//   barrier                            in the host, among leaders, in the host
// 16-bit floats are summed as float32, in the host and across, and rounded once.
//
// A collective is several ones of the layers, its steps, which have instances of their own. Each begins with what no
// member passes before all members of its layer have come, so one that some member never enters can be withdrawn in
// whatever step the others are. A failure of one layer ends the other one on this member; the notices of both layers
// tell the members that wait for it. Who waits for a member that hangs on a third one's death waits for Abort.
class HierarchicalCommunicator final : public collective::BlockingCommunicator {
 public:
  // Blocks until all members have theirs; `transport` and `bootstrap` outlive the communicator.
  //   UNAVAILABLE    shared memory is refused on one of the hosts; the same answer, with the reason, on all members
  //   anything else  no agreement, or no connection: members may differ
  static absl::StatusOr<std::unique_ptr<HierarchicalCommunicator>> Create(const collective::Group& group,
                                                                          transport::Transport* transport,
                                                                          collective::Bootstrap* bootstrap,
                                                                          const HierarchicalOptions& options);

  ~HierarchicalCommunicator() override;

  // "hier", or "hier over verbs": what is not TCP is named.
  std::string name() const override { return name_; }
  int position() const override { return group_.position; }
  int size() const override { return static_cast<int>(group_.members.size()); }
  // Where hosts are even, any number of tensors goes through the layers in parts.
  int64_t FusedBytesMax() const override;
  // That of the host's layer.
  void* Buffer(int64_t bytes) override { return layers_.local->Buffer(bytes); }
  absl::Status Allreduce(const collective::Instance& instance, const arithmetic::Reduction& how, void* data,
                         int64_t count) override;
  absl::Status AllreducePieces(const collective::Instance& instance, const arithmetic::Reduction& how,
                               absl::Span<const collective::Piece> pieces) override;
  absl::Status Alltoall(const collective::Instance& instance, const void* input, void* output,
                        const std::vector<int64_t>& send_bytes, const std::vector<int64_t>& receive_bytes) override;
  absl::Status Allgather(const collective::Instance& instance, const void* input, void* output,
                         const std::vector<int64_t>& byte_counts) override;
  absl::Status Broadcast(const collective::Instance& instance, int root, void* data, int64_t bytes) override;
  absl::Status Barrier(const collective::Instance& instance) override;
  void Withdraw(const collective::Instance& instance) override;
  void Abort(const std::string& reason) override;
  Rank SuspectRank() const override;

 private:
  HierarchicalCommunicator(const collective::Group& group, std::string name, HierarchicalLayers layers,
                           const HierarchicalOptions& options);

  int local() const { return map_.local_of(position()); }
  int host() const { return map_.host_of(position()); }
  bool leads() const { return local() == 0; }

  // Tells the layer across hosts of all memory that it may get parts of, which it keeps registered.
  void WatchMemory(collective::BatchBuffer::Watcher* watcher);

  // The instance of step `step` of a collective.
  static collective::Instance StepOf(const collective::Instance& instance, uint32_t step);
  // Runs a step of this layer; what fails breaks the communicator.
  template <typename F>
  absl::Status InHost(const collective::Instance& instance, uint32_t step, F collective);
  template <typename F>
  absl::Status Across(const collective::Instance& instance, uint32_t step, F collective);
  absl::Status Ended(const absl::Status& status, const collective::BlockingCommunicator& layer);
  absl::Status Break(const absl::Status& status, Rank suspect);

  absl::Status AllreduceByLeaders(const collective::Instance& instance, const arithmetic::Reduction& how, char* data,
                                  int64_t count);
  // Whether all members talk across hosts for an allreduce of so many bytes.
  bool IsByAll(int64_t bytes) const { return map_.even() && bytes > options_.leaders_bytes_max; }
  absl::Status AllreduceByAll(const collective::Instance& instance, const arithmetic::Reduction& how, Passage* passage,
                              int64_t count);
  // The steps of a part of it.
  struct Part {
    int64_t begin = 0;
    int64_t count = 0;
    uint32_t step = 0;  // and the next one
    char* at = nullptr;
    std::vector<int64_t> shares;  // elements, by local number
    char* own = nullptr;          // this member's share
  };
  int64_t ElementsOfPart(int64_t count, int64_t element) const;
  Part PartOf(int64_t count, int64_t each, int64_t index, int64_t element) const;
  absl::Status SumInHost(const collective::Instance& instance, const arithmetic::Reduction& how, Passage* passage,
                         Part* part);
  absl::Status SumAcross(const collective::Instance& instance, const arithmetic::Reduction& how, const Part& part);
  // In the thread for that.
  absl::Status BeginToCross(AcrossThread::Call call);
  absl::Status GatherInHost(const collective::Instance& instance, const arithmetic::Reduction& how, Passage* passage,
                            const Part& part);
  absl::Status AllreduceWidened(const collective::Instance& instance, const arithmetic::Reduction& how, char* data,
                                int64_t count);

  struct BroadcastCall {
    collective::Instance instance;
    char* data;
    int64_t bytes;
    int64_t part_bytes;
    int root_host;
    int carrier;  // who goes across, by local number

    int64_t parts() const { return std::max<int64_t>((bytes + part_bytes - 1) / part_bytes, 1); }
    collective::Share PartOf(int64_t index) const {
      return {index * part_bytes, std::min(part_bytes, bytes - index * part_bytes)};
    }
  };
  absl::Status BroadcastByParts(const BroadcastCall& call);
  absl::Status BroadcastAcross(const BroadcastCall& call, int64_t index);
  absl::Status BroadcastInHost(const BroadcastCall& call, int64_t index);

  const collective::Group group_;
  const std::string name_;
  const HierarchicalOptions options_;
  const collective::HostMap map_;
  collective::BatchBuffer share_, widened_, gathered_, narrow_;

  mutable absl::Mutex mutex_;
  // The step of this host's layer that runs or is the next; the collective that was withdrawn last.
  collective::Instance step_ ABSL_GUARDED_BY(mutex_);
  collective::Instance collective_ ABSL_GUARDED_BY(mutex_);
  absl::optional<collective::Instance> withdrawn_ ABSL_GUARDED_BY(mutex_);
  absl::Status failed_ ABSL_GUARDED_BY(mutex_);
  Rank suspect_ ABSL_GUARDED_BY(mutex_);

  // Threads of theirs may use the rest, and the last one uses them.
  HierarchicalLayers layers_;
  AcrossThread across_thread_;
};

}  // namespace farandole::worker::hier

#endif  // FARANDOLE_WORKER_HIER_HIERARCHICAL_COMMUNICATOR_H_
