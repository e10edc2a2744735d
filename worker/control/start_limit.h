#ifndef FARANDOLE_WORKER_CONTROL_START_LIMIT_H_
#define FARANDOLE_WORKER_CONTROL_START_LIMIT_H_

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "base/event_loop.h"
#include "worker/control/link_events.h"
#include "worker/control/steps.h"

namespace farandole::worker::control {

// Ends a joining that takes too long, with a sentence that says what is missing.
class StartLimit {
 public:
  struct Options {
    bool elastic = false;
    int32_t size = 1;
    // Of a job that is not elastic: until all processes are there. Of an elastic one, which may have to wait for
    // processes for long: until the controller has answered.
    uint32_t start_timeout_ms = 0;
    // At least as long; until this process is a member.
    uint32_t timeout_ms = 0;
  };
  // The others outlive this.
  StartLimit(const Options& options, EventLoop* loop, Steps* steps, const LinkEvents* events)
      : options_(options), loop_(loop), steps_(steps), events_(events) {}

  void StartFromLoop();

 private:
  void AskAgain();
  void TimeOver();
  void AnswerTimeOver();
  std::string WhatIsMissing() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(steps_->mutex());
  std::string WhoIsMissing(const std::string& within) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(steps_->mutex());

  const Options options_;
  EventLoop* const loop_;
  Steps* const steps_;
  const LinkEvents* const events_;
};

}  // namespace farandole::worker::control

#endif  // FARANDOLE_WORKER_CONTROL_START_LIMIT_H_
