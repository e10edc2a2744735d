#include "agent/processes/process_end.h"

#include <string.h>
#include <sys/wait.h>

#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/read_file.h"

namespace farandole::agent::processes {
namespace {

ProcessEnd Exited(pid_t pid, int code) { return ProcessEnd{pid, code, absl::StrCat("exited with code ", code)}; }

ProcessEnd Killed(pid_t pid, int signal) {
  return ProcessEnd{pid, 128 + signal, absl::StrCat("was killed by signal ", signal, " (", SignalName(signal), ")")};
}

}  // namespace

std::string SignalName(int number) {
  const char* name = sigabbrev_np(number);
  return name != nullptr ? absl::StrCat("SIG", name) : absl::StrCat("signal ", number);
}

ProcessEnd DescribeEnd(const siginfo_t& info) {
  return info.si_code == CLD_EXITED ? Exited(info.si_pid, info.si_status) : Killed(info.si_pid, info.si_status);
}

ProcessEnd ReadEnd(pid_t pid) {
  const std::string stat = ReadFile(absl::StrCat("/proc/", pid, "/stat"));
  const size_t end_of_name = stat.rfind(')');
  if (end_of_name == std::string::npos) return UnknownEnd(pid);
  // The fields from the third on: state, ..., exit_code (52).
  const std::vector<std::string> fields = absl::StrSplit(stat.substr(end_of_name + 1), ' ', absl::SkipEmpty());
  int status = 0;
  if (fields.size() < 50 || fields[0] != "Z" || !absl::SimpleAtoi(absl::StripAsciiWhitespace(fields[49]), &status)) {
    return UnknownEnd(pid);
  }
  return WIFEXITED(status) ? Exited(pid, WEXITSTATUS(status)) : Killed(pid, WTERMSIG(status));
}

ProcessEnd UnknownEnd(pid_t pid) { return ProcessEnd{pid, -1, "ended without leaving the job"}; }

}  // namespace farandole::agent::processes
