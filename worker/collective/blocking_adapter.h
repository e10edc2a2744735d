#ifndef FARANDOLE_WORKER_COLLECTIVE_BLOCKING_ADAPTER_H_
#define FARANDOLE_WORKER_COLLECTIVE_BLOCKING_ADAPTER_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/collective/adasum_runner.h"
#include "worker/collective/batch_buffer.h"
#include "worker/collective/blocking_communicator.h"
#include "worker/collective/communicator.h"

namespace farandole::worker::collective {

// A medium whose calls block, on host memory, as a Communicator: Start makes the call in the calling thread, and `done`
// is called before it returns. So no thread is woken for a collective. Does the copies and factors that the medium
// leaves to others; RESOURCE_EXHAUSTED: no memory for them.
class BlockingAdapter final : public Communicator {
 public:
  explicit BlockingAdapter(std::shared_ptr<BlockingCommunicator> medium, std::string why_not_quicker = "")
      : medium_(std::move(medium)), why_not_quicker_(std::move(why_not_quicker)) {}

  std::string name() const override { return medium_->name(); }
  std::string WhyNotQuicker() const override { return why_not_quicker_; }
  int position() const override { return medium_->position(); }
  int size() const override { return medium_->size(); }
  int64_t FusedBytesMax(DeviceKind memory, device::Device* device) override { return medium_->FusedBytesMax(); }
  void Start(const Instance& instance, const Collective& collective, const Enqueued& enqueued, Done done) override;
  void Withdraw(const Instance& instance) override { medium_->Withdraw(instance); }
  void Abort(const std::string& reason) override { medium_->Abort(reason); }
  Rank SuspectRank() const override { return medium_->SuspectRank(); }

 private:
  absl::Status Call(const Instance& instance, const Allreduce& call);
  absl::Status Call(const Instance& instance, const Adasum& call);
  absl::Status Call(const Instance& instance, const Reducescatter& call);
  absl::Status Call(const Instance& instance, const Allgather& call);
  absl::Status Call(const Instance& instance, const Alltoall& call);
  absl::Status Call(const Instance& instance, const Broadcast& call);
  absl::Status Call(const Instance& instance, const Barrier& call);
  absl::Status AllreduceScaled(const Instance& instance, const Allreduce& call);

  const std::shared_ptr<BlockingCommunicator> medium_;
  const std::string why_not_quicker_;
  AdasumRunner adasum_;
  BatchBuffer scaled_;
};

}  // namespace farandole::worker::collective

#endif  // FARANDOLE_WORKER_COLLECTIVE_BLOCKING_ADAPTER_H_
