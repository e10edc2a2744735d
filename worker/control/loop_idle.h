#ifndef FARANDOLE_WORKER_CONTROL_LOOP_IDLE_H_
#define FARANDOLE_WORKER_CONTROL_LOOP_IDLE_H_

#include <atomic>
#include <functional>

#include "base/event_loop.h"
#include "worker/execute/executor.h"

namespace farandole::worker::control {

// What the executor's thread does between items: it drives the control loop, so that it reads the next item itself. Not
// while the script alone brings it work, as in a replay: to be woken from a loop's wait for events costs three times as
// much as from a futex.
class LoopIdle final : public execute::Executor::Idle {
 public:
  // Must outlive this.
  explicit LoopIdle(EventLoop* loop) : loop_(loop) {}

  // Any thread: whether nothing comes for the executor through the loop.
  void SetSilent(bool silent);

  bool Wait(const std::function<bool()>& woken) override;
  void Wake() override { loop_->WakeDriver(); }

 private:
  EventLoop* const loop_;
  std::atomic<bool> silent_{false};
};

}  // namespace farandole::worker::control

#endif  // FARANDOLE_WORKER_CONTROL_LOOP_IDLE_H_
