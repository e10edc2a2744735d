#ifndef FARANDOLE_WORKER_EXECUTE_TRACING_COMMUNICATOR_H_
#define FARANDOLE_WORKER_EXECUTE_TRACING_COMMUNICATOR_H_

#include <string>

#include "absl/synchronization/mutex.h"
#include "worker/collective/communicator.h"
#include "worker/session/work.h"

namespace farandole::worker::execute {

// Another communicator, whose collectives leave their times in a trace, in the order in which they end. Only around
// batches that have one, so that the others pay nothing.
class TracingCommunicator final : public collective::Communicator {
 public:
  // Both outlive this.
  TracingCommunicator(collective::Communicator* traced, session::Work::Trace* trace);

  std::string name() const override { return traced_->name(); }
  int position() const override { return traced_->position(); }
  int size() const override { return traced_->size(); }
  int64_t FusedBytesMax(DeviceKind memory, device::Device* device) override {
    return traced_->FusedBytesMax(memory, device);
  }
  void Start(const collective::Instance& instance, const collective::Collective& collective, const Enqueued& enqueued,
             Done done) override;
  void Withdraw(const collective::Instance& instance) override { traced_->Withdraw(instance); }
  void Abort(const std::string& reason) override { traced_->Abort(reason); }
  Rank SuspectRank() const override { return traced_->SuspectRank(); }

 private:
  collective::Communicator* const traced_;
  const std::string medium_;
  absl::Mutex mutex_;
  session::Work::Trace* const trace_;
};

}  // namespace farandole::worker::execute

#endif  // FARANDOLE_WORKER_EXECUTE_TRACING_COMMUNICATOR_H_
