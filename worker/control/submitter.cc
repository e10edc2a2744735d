#include "worker/control/submitter.h"

#include <utility>

namespace farandole::worker::control {

completion::Result Submitter::Submit(const std::shared_ptr<session::Operation>* operations, size_t count) {
  Steps::Step step(steps_);
  const TimePoint now = loop_->Now();
  for (size_t i = 0; i < count; ++i) operations[i]->submitted_ns = now.ns();
  session::Effects effects;
  session::Session& session = steps_->session();
  completion::Result result = session.Submit(operations, count, now, &effects);
  if (!result.ok()) return result;
  steps_->Apply(std::move(effects));
  if (!session.has_unannounced()) return result;
  if (now.ns() - last_announce_.ns() > kBurstGapNs || session.unannounced() >= kBurstRequestsMax) {
    last_announce_ = now;
    steps_->Apply(session.Flush());
  } else if (!flush_posted_) {
    flush_posted_ = true;
    loop_->Post([this] {
      Steps::Step step(steps_);
      flush_posted_ = false;
      steps_->Apply(steps_->session().Flush());
    });
  }
  return result;
}

void Submitter::Flush() {
  Steps::Step step(steps_);
  if (!steps_->session().has_unannounced()) return;
  last_announce_ = loop_->Now();
  steps_->Apply(steps_->session().Flush());
}

}  // namespace farandole::worker::control
