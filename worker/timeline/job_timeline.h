#ifndef FARANDOLE_WORKER_TIMELINE_JOB_TIMELINE_H_
#define FARANDOLE_WORKER_TIMELINE_JOB_TIMELINE_H_

#include <atomic>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/event_loop.h"
#include "proto/messages.h"
#include "worker/link/control_link.h"
#include "worker/session/work.h"
#include "worker/timeline/timeline.h"

namespace farandole::worker::timeline {

// One rank's part in the timeline of a job: rank 0 starts and stops it, tells the others by way of the controller, and
// takes their reports. Any thread unless said otherwise.
class JobTimeline {
 public:
  // Both outlive this.
  JobTimeline(EventLoop* loop, link::ControlLink* link) : loop_(loop), link_(link) {}

  // Once, before anything else.
  void Joined(const GenerationId& generation, Rank self, int size);
  // Effective on rank 0, OK and nothing else on the others. Status of Timeline::StartWriting.
  absl::Status Start(const std::string& path, bool mark_cycles);
  void Stop();

  // Control loop, or who runs it: a message that may concern it.
  void ReceivedFromLoop(const WorkerDown& message);
  // A batch on its way to the executor, and back when it is done.
  void Dispatched(session::Work* work) const;
  void Executed(const session::Work& work);

 private:
  bool writes() const { return self_ == Rank(0); }
  void Tell(bool on);
  void ReportFromLoop();

  EventLoop* const loop_;
  link::ControlLink* const link_;
  // Constant after Joined.
  GenerationId generation_;
  Rank self_;
  int size_ = 0;
  std::unique_ptr<Timeline> timeline_;
  // Rank 0: a restarted controller is told whether the timeline is on.
  std::atomic<bool> told_{false};
  bool reporting_ = false;  // control loop only
};

}  // namespace farandole::worker::timeline

#endif  // FARANDOLE_WORKER_TIMELINE_JOB_TIMELINE_H_
