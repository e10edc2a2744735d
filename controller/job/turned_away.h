#ifndef FARANDOLE_CONTROLLER_JOB_TURNED_AWAY_H_
#define FARANDOLE_CONTROLLER_JOB_TURNED_AWAY_H_

#include <string>

#include "controller/types/job_config.h"
#include "proto/messages.h"

namespace farandole::controller::job {

// What a worker is told whose generation is not there: why it ended if that is known, as its other members were told.
Removed TurnedAway(const GenerationId& generation, const std::string& job, const EndedGeneration& ended);

}  // namespace farandole::controller::job

#endif  // FARANDOLE_CONTROLLER_JOB_TURNED_AWAY_H_
