#ifndef FARANDOLE_CONTROLLER_WAITS_OPEN_WAITS_H_
#define FARANDOLE_CONTROLLER_WAITS_OPEN_WAITS_H_

#include <vector>

#include "base/clock.h"
#include "controller/ready/negotiator.h"
#include "controller/replay/begun_list.h"
#include "controller/replay/replay_state.h"
#include "controller/types/job_status.h"
#include "controller/types/open_wait.h"
#include "controller/waits/report_table.h"

namespace farandole::controller::waits {

// Everything that members of a generation wait for, oldest first, at most `max`: while negotiating requests, and before
// them the instances that were begun in the last replay, and what those hold back that are kept; answers to Halt while
// halting; in a replay what the members report.
std::vector<OpenWait> OpenWaits(const ready::Negotiator& negotiator, const replay::ReplayState& replay,
                                const replay::BegunList& begun, const ReportTable& reports, size_t max, TimePoint now);

// What a running generation does, and its replay as far as members have reported.
void FillReplay(const ReportTable& reports, const replay::ReplayState& replay, TimePoint now, JobStatus* status);

}  // namespace farandole::controller::waits

#endif  // FARANDOLE_CONTROLLER_WAITS_OPEN_WAITS_H_
