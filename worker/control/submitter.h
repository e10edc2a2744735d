#ifndef FARANDOLE_WORKER_CONTROL_SUBMITTER_H_
#define FARANDOLE_WORKER_CONTROL_SUBMITTER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "base/event_loop.h"
#include "worker/control/steps.h"

namespace farandole::worker::control {

// Takes submissions from the script's threads and announces them: a lone one from the thread that submits it, those
// that follow each other within kBurstGapNs together, by the control loop or the first thread that calls Flush. Any
// thread.
class Submitter {
 public:
  static constexpr int64_t kBurstGapNs = 30000;
  static constexpr size_t kBurstRequestsMax = 64;

  // Both outlive this.
  Submitter(EventLoop* loop, Steps* steps) : loop_(loop), steps_(steps) {}

  // Does not block. All of them or none; each finishes exactly once if this is OK, otherwise never.
  completion::Result Submit(const std::shared_ptr<session::Operation>* operations, size_t count);
  // Announces now what is held back to be announced together.
  void Flush();

 private:
  EventLoop* const loop_;
  Steps* const steps_;
  TimePoint last_announce_ ABSL_GUARDED_BY(steps_->mutex());
  bool flush_posted_ ABSL_GUARDED_BY(steps_->mutex()) = false;
};

}  // namespace farandole::worker::control

#endif  // FARANDOLE_WORKER_CONTROL_SUBMITTER_H_
