#ifndef FARANDOLE_WORKER_SESSION_OUTAGE_WATCH_H_
#define FARANDOLE_WORKER_SESSION_OUTAGE_WATCH_H_

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "proto/messages.h"

namespace farandole::worker::session {

// Whether a worker still waits with reason while the controller is out of reach. What a replay executes needs no
// controller; so the worker gives up only when an operation has waited for as long as the controller has been away, and
// both for the bound. Pure.
class OutageWatch {
 public:
  explicit OutageWatch(uint32_t bound_ms) : bound_ms_(bound_ms) {}

  // `why`: what the agent says of it, the latest counts.
  void Lost(const std::string& why, TimePoint now);
  void Found() { lost_ = false; }
  bool lost() const { return lost_; }

  // While lost(): how long until the bound could be reached by what `report` says of open and running operations; 0:
  // it is reached.
  int64_t LeftMs(const WorkerReport& report, TimePoint now) const;
  // For the error that ends the worker.
  std::string Sentence(const WorkerReport& report, TimePoint now) const;

 private:
  const uint32_t bound_ms_;
  bool lost_ = false;
  TimePoint since_;
  std::string why_;
};

}  // namespace farandole::worker::session

#endif  // FARANDOLE_WORKER_SESSION_OUTAGE_WATCH_H_
