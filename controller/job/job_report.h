#ifndef FARANDOLE_CONTROLLER_JOB_JOB_REPORT_H_
#define FARANDOLE_CONTROLLER_JOB_JOB_REPORT_H_

#include "base/clock.h"
#include "controller/members/agent_table.h"
#include "controller/members/membership.h"
#include "controller/recovery/gather.h"
#include "controller/types/job_status.h"

namespace farandole::controller::job {

// What the status of a job says while no generation runs: those who wait to join, as members.
void ReportCandidates(const members::Membership& waiting, const members::AgentTable& agents, TimePoint now,
                      JobStatus* status);

// Who has called init, and who has not, as a wait. Not of elastic jobs.
void ReportInit(const members::Membership& waiting, TimePoint now, JobStatus* status);

// Who of a generation has registered with this controller, which was started again, and who has not.
void ReportRegistration(const recovery::Gather& gather, TimePoint now, JobStatus* status);

}  // namespace farandole::controller::job

#endif  // FARANDOLE_CONTROLLER_JOB_JOB_REPORT_H_
