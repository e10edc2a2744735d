#include "agent/core/liveness.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/read_file.h"

namespace farandole::agent::core {

char ParseProcessState(const std::string& stat) {
  const size_t end_of_name = stat.rfind(')');
  if (end_of_name == std::string::npos || end_of_name + 2 >= stat.size()) return 0;
  return stat[end_of_name + 2];
}

char ProcessState(pid_t pid) { return ParseProcessState(ReadFile(absl::StrCat("/proc/", pid, "/stat"))); }

Liveness Judge(char process_state, TimePoint heard, TimePoint now, int64_t silence_ms) {
  if (process_state == 'T') return {false, "is stopped by a signal"};
  if (process_state == 't') return {false, "is stopped by a debugger"};
  if (now.MsSince(heard) > silence_ms) {
    return {false, absl::StrCat("has not run its control thread for ", silence_ms / 1000, " s")};
  }
  return {};
}

}  // namespace farandole::agent::core
