#include "controller/job/stale_workers.h"

#include "absl/strings/str_cat.h"

namespace farandole::controller::job {

void StaleWorkers::TurnAway(const std::string& agent_id, const Hello& hello, Actions* actions) const {
  Removed removed{hello.generation, RemovedKind::kPeerLost, ended_.reason};
  if (!KnowsEnd(hello.generation)) {
    removed.kind = RemovedKind::kGone;
    removed.reason = absl::StrCat("the controller does not know generation ", hello.generation.number, " of job ", job_,
                                  " (any more); it was restarted, or the job went on without this worker");
  }
  actions->Because(
      absl::StrCat("pid ", hello.pid, " on host ", agents_->Host(agent_id), " was turned away: ", removed.reason));
  actions->ToWorker(agent_id, hello.worker_incarnation, std::move(removed));
}

}  // namespace farandole::controller::job
