#include "controller/job/trace_relay.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole::controller::job {

void TraceRelay::OnControl(Rank from, const TraceControl& control, members::Roster* roster, Actions* actions) {
  if (from != Rank(0)) return;
  said_ = true;
  on_ = control.on;
  roster->ToAll(control, actions);
  actions->Because(absl::StrCat(Describe(roster->seat(from).member), on_ ? " begins" : " ends", " a timeline"));
}

void TraceRelay::OnTrace(Rank from, const Trace& trace, const members::Roster& roster, Actions* actions) const {
  if (!on_ || from == Rank(0) || roster.seat(Rank(0)).gone()) return;
  Trace passed = trace;
  passed.rank = from;
  roster.ToOne(Rank(0), std::move(passed), actions);
}

void TraceRelay::OnSession(Rank rank, const GenerationId& generation, const members::Roster& roster,
                           Actions* actions) const {
  if (said_ && rank != Rank(0)) roster.ToOne(rank, TraceControl{generation, on_}, actions);
}

}  // namespace farandole::controller::job
