#include "agent/process_end.h"

#include <string.h>

#include "absl/strings/str_cat.h"

namespace farandole {

std::string SignalName(int number) {
  const char* name = sigabbrev_np(number);
  return name != nullptr ? absl::StrCat("SIG", name) : absl::StrCat("signal ", number);
}

ProcessEnd DescribeEnd(const siginfo_t& info) {
  ProcessEnd end;
  end.pid = info.si_pid;
  if (info.si_code == CLD_EXITED) {
    end.code = info.si_status;
    end.cause = absl::StrCat("exited with code ", end.code);
  } else {
    end.code = 128 + info.si_status;
    end.cause = absl::StrCat("was killed by signal ", info.si_status, " (", SignalName(info.si_status), ")");
  }
  return end;
}

ProcessEnd UnknownEnd(pid_t pid) { return ProcessEnd{pid, -1, "ended without leaving the job"}; }

}  // namespace farandole
