#include "controller/job/turned_away.h"

#include "absl/strings/str_cat.h"

namespace farandole::controller::job {

Removed TurnedAway(const GenerationId& generation, const std::string& job, const EndedGeneration& ended) {
  if (generation == ended.id && !ended.reason.empty()) {
    return Removed{generation, RemovedKind::kPeerLost, ended.reason};
  }
  return Removed{generation, RemovedKind::kGone,
                 absl::StrCat("the controller does not know generation ", generation.number, " of job ", job,
                              " (any more); it was restarted, or the job went on without this worker")};
}

}  // namespace farandole::controller::job
