#include "controller/rpc/job_list.h"

#include "base/job_name.h"
#include "controller/rpc/status_proto.h"
#include "controller/types/job_status.h"

namespace farandole::controller::rpc {

void JobList::Write(absl::string_view name, v1::ListJobsReply* reply) {
  const TimePoint now = hub_->Now();
  if (!made_ || now.MsSince(made_at_) >= kKeptMs) {
    all_.Clear();
    for (const JobStatus& status : hub_->AllStatus()) {
      if (WholeJob(status.job) == status.job) ToSummary(status, all_.add_jobs());
    }
    made_ = true;
    made_at_ = now;
  }
  for (const v1::JobSummary& job : all_.jobs()) {
    if (NamespaceOf(job.job()) == name) *reply->add_jobs() = job;
  }
}

}  // namespace farandole::controller::rpc
