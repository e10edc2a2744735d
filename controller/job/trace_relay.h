#ifndef FARANDOLE_CONTROLLER_JOB_TRACE_RELAY_H_
#define FARANDOLE_CONTROLLER_JOB_TRACE_RELAY_H_

#include "controller/members/roster.h"
#include "controller/types/actions.h"
#include "proto/messages.h"

namespace farandole::controller::job {

// Passes on what a timeline needs: rank 0 says when it begins and ends, the others report to rank 0. Pure.
class TraceRelay {
 public:
  // Ignored unless `from` is rank 0.
  void OnControl(Rank from, const TraceControl& control, members::Roster* roster, Actions* actions);
  void OnTrace(Rank from, const Trace& trace, const members::Roster& roster, Actions* actions) const;
  // A member has opened a session, and may have missed that a timeline began or ended.
  void OnSession(Rank rank, const GenerationId& generation, const members::Roster& roster, Actions* actions) const;

 private:
  bool said_ = false;
  bool on_ = false;
};

}  // namespace farandole::controller::job

#endif  // FARANDOLE_CONTROLLER_JOB_TRACE_RELAY_H_
