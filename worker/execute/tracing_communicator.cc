#include "worker/execute/tracing_communicator.h"

#include <memory>
#include <utility>

#include "base/clock.h"
#include "worker/collective/collective.h"
#include "worker/device/phases.h"

namespace farandole::worker::execute {
namespace {

struct Timed {
  collective::Collective collective;
  device::Phases phases;
};

}  // namespace

TracingCommunicator::TracingCommunicator(collective::Communicator* traced, session::Work::Trace* trace)
    : traced_(traced), medium_(traced->name()), trace_(trace) {}

void TracingCommunicator::Start(const collective::Instance& instance, const collective::Collective& collective,
                                const Enqueued& enqueued, Done done) {
  const int64_t begin_ns = Clock::Monotonic().Now().ns();
  // The same, with a place for its times.
  const auto timed = std::make_shared<Timed>();
  timed->collective = collective;
  timed->collective.phases = &timed->phases;
  traced_->Start(instance, timed->collective, enqueued,
                 [this, begin_ns, timed, done = std::move(done)](const absl::Status& status) {
                   {
                     absl::MutexLock lock(&mutex_);
                     const int64_t end_ns = Clock::Monotonic().Now().ns();
                     trace_->collectives.push_back({medium_, begin_ns, end_ns, std::move(timed->phases)});
                   }
                   done(status);
                 });
}

}  // namespace farandole::worker::execute
