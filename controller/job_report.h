#ifndef FARANDOLE_CONTROLLER_JOB_REPORT_H_
#define FARANDOLE_CONTROLLER_JOB_REPORT_H_

#include "base/clock.h"
#include "controller/agent_table.h"
#include "controller/gather.h"
#include "controller/job_status.h"
#include "controller/membership.h"

namespace farandole {

// What the status of a job says while no generation runs: those who wait to join, as members.
void ReportCandidates(const Membership& waiting, const AgentTable& agents, TimePoint now, JobStatus* status);

// Who has called init, and who has not, as a wait. Not of elastic jobs.
void ReportInit(const Membership& waiting, TimePoint now, JobStatus* status);

// Who of a generation has registered with this controller, which was started again, and who has not.
void ReportRegistration(const Gather& gather, TimePoint now, JobStatus* status);

}  // namespace farandole

#endif  // FARANDOLE_CONTROLLER_JOB_REPORT_H_
