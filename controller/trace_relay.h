#ifndef FARANDOLE_CONTROLLER_TRACE_RELAY_H_
#define FARANDOLE_CONTROLLER_TRACE_RELAY_H_

#include "controller/actions.h"
#include "controller/roster.h"
#include "proto/messages.h"

namespace farandole {

// Passes on what a timeline needs: rank 0 says when it begins and ends, the others report to rank 0. Pure.
class TraceRelay {
 public:
  // Ignored unless `from` is rank 0.
  void OnControl(Rank from, const TraceControl& control, Roster* roster, Actions* actions);
  void OnTrace(Rank from, const Trace& trace, const Roster& roster, Actions* actions) const;
  // A member has opened a session, and may have missed that a timeline began or ended.
  void OnSession(Rank rank, const GenerationId& generation, const Roster& roster, Actions* actions) const;

 private:
  bool said_ = false;
  bool on_ = false;
};

}  // namespace farandole

#endif  // FARANDOLE_CONTROLLER_TRACE_RELAY_H_
