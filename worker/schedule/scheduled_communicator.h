#ifndef FARANDOLE_WORKER_SCHEDULE_SCHEDULED_COMMUNICATOR_H_
#define FARANDOLE_WORKER_SCHEDULE_SCHEDULED_COMMUNICATOR_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/transport.h"
#include "worker/collective/batch_buffer.h"
#include "worker/collective/blocking_communicator.h"
#include "worker/collective/bootstrap.h"
#include "worker/collective/group.h"
#include "worker/schedule/peer_links.h"
#include "worker/schedule/relayed_alltoall.h"
#include "worker/schedule/schedule.h"
#include "worker/schedule/schedule_runner.h"
#include "worker/schedule/schedule_table.h"

namespace farandole::worker::schedule {

// The same on all members, which refuse one another otherwise.
struct ScheduledOptions {
  RunnerOptions runner;
  ScheduleTable table;
  // Groups up to this size have a channel between every two members; larger ones only those that the sparse schedules
  // need: about 2 log2(size) a member.
  int mesh_members_max = 64;
  // To each peer.
  int connections = 1;
  // Nobody between two members can read or change their data.
  bool encrypted = false;
};

// Collectives as schedules over the channels of a transport. schedule.h has the steps and bytes of each, the table of
// schedules says which one an operand takes. In groups without a mesh an alltoall is relayed, and 16-bit floats are
// reduced as float32.
class ScheduledCommunicator final : public collective::BlockingCommunicator {
 public:
  // Blocks until the channels to all peers are open; errors as OpenChannels. `transport` outlives the communicator.
  static absl::StatusOr<std::unique_ptr<ScheduledCommunicator>> Create(const collective::Group& group,
                                                                       transport::Transport* transport,
                                                                       collective::Bootstrap* bootstrap,
                                                                       const ScheduledOptions& options = {});

  ~ScheduledCommunicator() override;

  std::string name() const override;
  int position() const override { return group_.position; }
  int size() const override { return static_cast<int>(group_.members.size()); }
  // Any memory serves as well as another.
  void* Buffer(int64_t bytes) override { return nullptr; }
  absl::Status Allreduce(const collective::Instance& instance, const arithmetic::Reduction& how, void* data,
                         int64_t count) override;
  absl::Status Reducescatter(const collective::Instance& instance, const arithmetic::Reduction& how, void* data,
                             void* output, const std::vector<int64_t>& counts) override;
  absl::Status Alltoall(const collective::Instance& instance, const void* input, void* output,
                        const std::vector<int64_t>& send_bytes, const std::vector<int64_t>& receive_bytes) override;
  absl::Status Allgather(const collective::Instance& instance, const void* input, void* output,
                         const std::vector<int64_t>& byte_counts) override;
  absl::Status Broadcast(const collective::Instance& instance, int root, void* data, int64_t bytes) override;
  absl::Status Barrier(const collective::Instance& instance) override;
  // What peers have sent of a withdrawn collective is dropped by its tag. The operand may hold anything.
  void Withdraw(const collective::Instance& instance) override { runner_->Withdraw(instance); }
  void Abort(const std::string& reason) override;
  Rank SuspectRank() const override;
  // Keeps the memory of buffers registered.
  collective::BatchBuffer::Watcher* watcher() override { return &keeper_; }

 private:
  struct Keeper final : public collective::BatchBuffer::Watcher {
    void Comes(void* data, int64_t bytes) override;
    void Goes(void* data) override { runner->memory()->Drop(data); }

    ScheduleRunner* runner = nullptr;
  };

  ScheduledCommunicator(const collective::Group& group, transport::Transport* transport,
                        std::unique_ptr<PeerLinks> links, const ScheduledOptions& options);

  // What a reduction of so many bytes takes.
  Algorithm Choose(ScheduledOp op, const arithmetic::Reduction& how, int64_t bytes) const;
  const Schedule& ScheduleOf(ScheduledOp op, Algorithm algorithm);
  absl::Status RunAllreduce(const collective::Instance& instance, const arithmetic::Reduction& how, char* data,
                            int64_t count);
  absl::Status AllreduceWidened(const collective::Instance& instance, const arithmetic::Reduction& how, char* data,
                                int64_t count);
  absl::Status RunRelayed(const collective::Instance& instance, RelayedAlltoall* relay);
  absl::Status Run(ScheduleRunner::Call call, const collective::Instance& instance);

  const collective::Group group_;
  const std::string transport_name_;
  const ScheduledOptions options_;
  const bool mesh_;
  // Those that have been needed.
  std::map<std::pair<ScheduledOp, Algorithm>, Schedule> schedules_;
  const Schedule alltoall_;
  const Schedule barrier_;
  // Before the links: their channels go first.
  std::unique_ptr<ScheduleRunner> runner_;
  std::unique_ptr<PeerLinks> links_;
  Keeper keeper_;
};

}  // namespace farandole::worker::schedule

#endif  // FARANDOLE_WORKER_SCHEDULE_SCHEDULED_COMMUNICATOR_H_
