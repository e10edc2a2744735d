#include "worker/execute/tracing_communicator.h"

#include <utility>

#include "base/clock.h"

namespace farandole::worker::execute {

TracingCommunicator::TracingCommunicator(collective::Communicator* traced, session::Work::Trace* trace)
    : traced_(traced), medium_(traced->name()), trace_(trace) {}

void TracingCommunicator::Start(const collective::Instance& instance, const collective::Collective& collective,
                                const Enqueued& enqueued, Done done) {
  const int64_t begin_ns = Clock::Monotonic().Now().ns();
  traced_->Start(instance, collective, enqueued, [this, begin_ns, done = std::move(done)](const absl::Status& status) {
    {
      absl::MutexLock lock(&mutex_);
      trace_->collectives.push_back({medium_, begin_ns, Clock::Monotonic().Now().ns()});
    }
    done(status);
  });
}

}  // namespace farandole::worker::execute
