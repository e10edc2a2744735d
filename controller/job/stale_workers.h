#ifndef FARANDOLE_CONTROLLER_JOB_STALE_WORKERS_H_
#define FARANDOLE_CONTROLLER_JOB_STALE_WORKERS_H_

#include <string>
#include <utility>

#include "controller/members/agent_table.h"
#include "controller/types/actions.h"
#include "controller/types/job_config.h"
#include "proto/messages.h"

namespace farandole::controller::job {

// Workers whose generation is not there (any more), and what they are told: why it ended if that is known, as its other
// members were told. Pure.
class StaleWorkers {
 public:
  // `ended`: the last generation of the job, if it is over. `agents` outlives this.
  StaleWorkers(std::string job, EndedGeneration ended, const members::AgentTable* agents)
      : job_(std::move(job)), ended_(std::move(ended)), agents_(agents) {}

  // A newer one is over; no reason: all have left.
  void Ended(EndedGeneration ended) { ended_ = std::move(ended); }
  // True if it is known why this one failed: nobody needs to register for it.
  bool KnowsEnd(const GenerationId& generation) const { return generation == ended_.id && !ended_.reason.empty(); }
  void TurnAway(const std::string& agent_id, const Hello& hello, Actions* actions) const;

 private:
  const std::string job_;
  EndedGeneration ended_;
  const members::AgentTable* const agents_;
};

}  // namespace farandole::controller::job

#endif  // FARANDOLE_CONTROLLER_JOB_STALE_WORKERS_H_
