#ifndef FARANDOLE_TESTS_TRANSCRIPTS_PRINT_H_
#define FARANDOLE_TESTS_TRANSCRIPTS_PRINT_H_

#include <string>

#include "controller/types/job_status.h"
#include "proto/messages.h"

namespace farandole::transcripts {

// Messages as transcripts show them, on one line.
std::string Print(const AgentWelcome& welcome);
std::string Print(const WorkerDown& message);
std::string Print(const controller::MemberStatus& member);
const char* Print(controller::JobState state);
std::string Print(controller::Activity activity, const controller::ReplayStatus& replay);

}  // namespace farandole::transcripts

#endif  // FARANDOLE_TESTS_TRANSCRIPTS_PRINT_H_
