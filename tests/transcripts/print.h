#ifndef FARANDOLE_TESTS_TRANSCRIPTS_PRINT_H_
#define FARANDOLE_TESTS_TRANSCRIPTS_PRINT_H_

#include <string>

#include "controller/job_status.h"
#include "proto/messages.h"

namespace farandole {

// Messages as transcripts show them, on one line.
std::string Print(const AgentWelcome& welcome);
std::string Print(const WorkerDown& message);
std::string Print(const MemberStatus& member);
const char* Print(JobState state);
std::string Print(Activity activity, const ReplayStatus& replay);

}  // namespace farandole

#endif  // FARANDOLE_TESTS_TRANSCRIPTS_PRINT_H_
