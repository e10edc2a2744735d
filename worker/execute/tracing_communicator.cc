#include "worker/execute/tracing_communicator.h"

#include "base/clock.h"

namespace farandole::worker::execute {

// "tcp ring" is the medium tcp.
TracingCommunicator::TracingCommunicator(collective::Communicator* traced, session::Work::Trace* trace)
    : traced_(traced), trace_(trace), medium_(traced->name().substr(0, traced->name().find(' '))) {}

template <typename F>
absl::Status TracingCommunicator::Traced(F collective) {
  const int64_t begin_ns = Clock::Monotonic().Now().ns();
  const absl::Status status = collective();
  trace_->collectives.push_back({medium_, begin_ns, Clock::Monotonic().Now().ns()});
  return status;
}

absl::Status TracingCommunicator::Allreduce(const collective::Instance& instance, const arithmetic::Reduction& how,
                                            void* data, int64_t count) {
  return Traced([&] { return traced_->Allreduce(instance, how, data, count); });
}

absl::Status TracingCommunicator::AllreducePieces(const collective::Instance& instance,
                                                  const arithmetic::Reduction& how,
                                                  absl::Span<const collective::Piece> pieces) {
  return Traced([&] { return traced_->AllreducePieces(instance, how, pieces); });
}

absl::Status TracingCommunicator::Reducescatter(const collective::Instance& instance, const arithmetic::Reduction& how,
                                                void* data, void* output, const std::vector<int64_t>& counts) {
  return Traced([&] { return traced_->Reducescatter(instance, how, data, output, counts); });
}

absl::Status TracingCommunicator::Alltoall(const collective::Instance& instance, const void* input, void* output,
                                           const std::vector<int64_t>& send_bytes,
                                           const std::vector<int64_t>& receive_bytes) {
  return Traced([&] { return traced_->Alltoall(instance, input, output, send_bytes, receive_bytes); });
}

absl::Status TracingCommunicator::Allgather(const collective::Instance& instance, const void* input, void* output,
                                            const std::vector<int64_t>& byte_counts) {
  return Traced([&] { return traced_->Allgather(instance, input, output, byte_counts); });
}

absl::Status TracingCommunicator::Broadcast(const collective::Instance& instance, int root, void* data, int64_t bytes) {
  return Traced([&] { return traced_->Broadcast(instance, root, data, bytes); });
}

}  // namespace farandole::worker::execute
