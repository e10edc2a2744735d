#ifndef FARANDOLE_WORKER_OS_LOG_H_
#define FARANDOLE_WORKER_OS_LOG_H_

#include "absl/strings/string_view.h"

namespace farandole::worker::os {

enum class LogLevel : int { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3 };

// What a worker says to people: whole lines on stderr, one write() each, never on stdout. Any thread.
void SetLogLevel(LogLevel level);
// -1: not known yet.
void SetLogRank(int rank);
bool LogEnabled(LogLevel level);
void Log(LogLevel level, absl::string_view text);

}  // namespace farandole::worker::os

#endif  // FARANDOLE_WORKER_OS_LOG_H_
