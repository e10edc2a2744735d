#ifndef FARANDOLE_AGENT_CORE_LIVENESS_H_
#define FARANDOLE_AGENT_CORE_LIVENESS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/clock.h"

namespace farandole::agent::core {

// Whether a living process answers, and if not, why.
struct Liveness {
  bool responsive = true;
  std::string cause;  // completes "it ..."
};

// State letter of a process as /proc/PID/stat gives it ('R', 'S', 'T', ...); 0 if it cannot be read.
char ProcessState(pid_t pid);
// The same from the content of that file; a program's name may hold spaces and parentheses.
char ParseProcessState(const std::string& stat);

// `heard` is when the worker last said anything; silence for longer than `silence_ms` is suspicious.
Liveness Judge(char process_state, TimePoint heard, TimePoint now, int64_t silence_ms);

}  // namespace farandole::agent::core

#endif  // FARANDOLE_AGENT_CORE_LIVENESS_H_
