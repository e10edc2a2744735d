#ifndef FARANDOLE_WORKER_EXECUTE_TRACING_COMMUNICATOR_H_
#define FARANDOLE_WORKER_EXECUTE_TRACING_COMMUNICATOR_H_

#include <string>
#include <vector>

#include "worker/collective/communicator.h"
#include "worker/session/work.h"

namespace farandole::worker::execute {

// Another communicator, whose collectives leave their times in a trace. Only around batches that a timeline shows, so
// that the others pay nothing.
class TracingCommunicator final : public collective::Communicator {
 public:
  // Both outlive this.
  TracingCommunicator(collective::Communicator* traced, session::Work::Trace* trace);

  std::string name() const override { return traced_->name(); }
  int position() const override { return traced_->position(); }
  int size() const override { return traced_->size(); }
  int64_t FusedBytesMax() const override { return traced_->FusedBytesMax(); }
  void* Buffer(int64_t bytes) override { return traced_->Buffer(bytes); }
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
  absl::Status Broadcast(const collective::Instance& instance, int root, void* data, int64_t bytes) override;
  absl::Status Barrier(const collective::Instance& instance) override { return traced_->Barrier(instance); }
  bool CanWithdraw() const override { return traced_->CanWithdraw(); }
  void Withdraw(const collective::Instance& instance) override { traced_->Withdraw(instance); }
  void Abort(const std::string& reason) override { traced_->Abort(reason); }
  Rank SuspectRank() const override { return traced_->SuspectRank(); }

 private:
  template <typename F>
  absl::Status Traced(F collective);

  collective::Communicator* const traced_;
  session::Work::Trace* const trace_;
  const std::string medium_;
};

}  // namespace farandole::worker::execute

#endif  // FARANDOLE_WORKER_EXECUTE_TRACING_COMMUNICATOR_H_
