#ifndef FARANDOLE_WORKER_LINK_LONE_CONTROLLER_H_
#define FARANDOLE_WORKER_LINK_LONE_CONTROLLER_H_

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/event_loop.h"
#include "controller/job/job.h"
#include "worker/link/control_link.h"

namespace farandole::worker::link {

// The controller's logic inside a process that was started alone, with one agent that does not exist: no thread beyond
// the control loop, no socket, no server.
class LoneController final : public ControlLink {
 public:
  LoneController(EventLoop* loop, Incarnation worker);

  void StartFromLoop(Listener* listener) override;
  void Send(const WorkerUp& message) override;

  absl::Status Put(const GenerationId& generation, const std::string& key, const std::string& value) override;
  // Nobody else could put anything: DEADLINE_EXCEEDED at once if the key has no value.
  absl::StatusOr<std::string> Get(const GenerationId& generation, const std::string& key, uint32_t timeout_ms) override;
  // UNAVAILABLE: there is no agent.
  absl::StatusOr<UniqueFd> Segment(const GenerationId& generation, const std::string& key,
                                   uint64_t size_bytes) override;
  void EndWaits(const std::string& reason) override {}

 private:
  void Say(const AgentUp& message);
  void Deliver(controller::Actions actions);
  void SetTimer();

  EventLoop* const loop_;
  const Incarnation worker_;
  Listener* listener_ = nullptr;
  EventLoop::TimerId timer_ = 0;
  absl::Mutex mutex_;
  controller::job::Job job_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole::worker::link

#endif  // FARANDOLE_WORKER_LINK_LONE_CONTROLLER_H_
