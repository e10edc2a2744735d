#ifndef FARANDOLE_CONTROLLER_OPEN_WAITS_H_
#define FARANDOLE_CONTROLLER_OPEN_WAITS_H_

#include <vector>

#include "base/clock.h"
#include "controller/begun_list.h"
#include "controller/job_status.h"
#include "controller/negotiator.h"
#include "controller/open_wait.h"
#include "controller/replay_state.h"
#include "controller/report_table.h"

namespace farandole {

// Everything that members of a generation wait for, oldest first, at most `max`: while negotiating requests, and before
// them the instances that were begun in the last replay; answers to Halt while halting; in a replay what the members
// report.
std::vector<OpenWait> OpenWaits(const Negotiator& negotiator, const ReplayState& replay, const BegunList& begun,
                                const ReportTable& reports, size_t max, TimePoint now);

// What a running generation does, and its replay as far as members have reported.
void FillReplay(const ReportTable& reports, const ReplayState& replay, TimePoint now, JobStatus* status);

}  // namespace farandole

#endif  // FARANDOLE_CONTROLLER_OPEN_WAITS_H_
