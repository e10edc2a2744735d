#ifndef FARANDOLE_WORKER_CONTROL_LINK_EVENTS_H_
#define FARANDOLE_WORKER_CONTROL_LINK_EVENTS_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "base/event_loop.h"
#include "worker/control/steps.h"
#include "worker/link/control_link.h"
#include "worker/session/outage_watch.h"
#include "worker/timeline/job_timeline.h"

namespace farandole::worker::control {

// What comes through the link, and what has to be said in time because nothing comes: acknowledgements; the end of a
// membership whose controller has been away for too long.
class LinkEvents final : public link::ControlLink::Listener {
 public:
  // `controller_timeout_ms`: see OutageWatch. The others outlive this.
  LinkEvents(EventLoop* loop, Steps* steps, timeline::JobTimeline* timeline, uint32_t controller_timeout_ms)
      : loop_(loop), steps_(steps), timeline_(timeline), outage_(controller_timeout_ms) {}

  void OnLinkState(const LinkState& state) override;
  void OnReceived(WorkerDown message) override;
  WorkerReport Report() override;

  // The last that was said of it. With the mutex of the steps held.
  const LinkState& link_state() const {
    steps_->mutex()->AssertHeld();
    return link_state_;
  }

 private:
  void ArmAckTimerFromLoop();
  void AckTimeOver();
  void LookAtOutageFromLoop();

  EventLoop* const loop_;
  Steps* const steps_;
  timeline::JobTimeline* const timeline_;
  bool ack_timer_armed_ = false;  // control loop only
  LinkState link_state_ ABSL_GUARDED_BY(steps_->mutex());
  session::OutageWatch outage_ ABSL_GUARDED_BY(steps_->mutex());
  bool outage_watched_ ABSL_GUARDED_BY(steps_->mutex()) = false;
};

}  // namespace farandole::worker::control

#endif  // FARANDOLE_WORKER_CONTROL_LINK_EVENTS_H_
