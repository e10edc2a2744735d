#ifndef FARANDOLE_WORKER_CONTROL_EXECUTION_H_
#define FARANDOLE_WORKER_CONTROL_EXECUTION_H_

#include <cstdint>

#include "base/event_loop.h"
#include "worker/control/steps.h"
#include "worker/execute/executor.h"
#include "worker/timeline/job_timeline.h"

namespace farandole::worker::control {

// What follows when the executor is done with an item: the session is told, the operations end. They end without any
// lock held, so that what follows from that may submit again at once.
class Execution final : public execute::Executor::Owner {
 public:
  // `verdict_ms`: after a failure of the data plane, how long to wait for the controller to name the culprit. The
  // others outlive this.
  Execution(EventLoop* loop, Steps* steps, timeline::JobTimeline* timeline, uint32_t verdict_ms)
      : loop_(loop), steps_(steps), timeline_(timeline), verdict_ms_(verdict_ms) {}

  void OnDone(session::Work work) override;
  void OnBroken(session::Work work, const absl::Status& reason, Rank suspect) override;
  void OnWithdrawn(session::Work work) override;

 private:
  EventLoop* const loop_;
  Steps* const steps_;
  timeline::JobTimeline* const timeline_;
  const uint32_t verdict_ms_;
};

}  // namespace farandole::worker::control

#endif  // FARANDOLE_WORKER_CONTROL_EXECUTION_H_
