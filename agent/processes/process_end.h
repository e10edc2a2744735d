#ifndef FARANDOLE_AGENT_PROCESSES_PROCESS_END_H_
#define FARANDOLE_AGENT_PROCESSES_PROCESS_END_H_

#include <signal.h>
#include <sys/types.h>

#include <string>

namespace farandole::agent::processes {

// How a process ended.
struct ProcessEnd {
  pid_t pid = 0;
  // 0 to 255; 128 + signal number when it was killed; -1 when only its parent was told.
  int code = -1;
  // Completes "worker ..." or "it ...": "exited with code 3", "was killed by signal 9 (SIGKILL)".
  std::string cause;
};

// From what waitid() has filled in.
ProcessEnd DescribeEnd(const siginfo_t& info);
// Of a process that has ended and that its parent has not waited for, which need not be this process. As UnknownEnd()
// if it has been waited for.
ProcessEnd ReadEnd(pid_t pid);
// Of a process that is not a child: nobody tells how it ended.
ProcessEnd UnknownEnd(pid_t pid);
// "SIGKILL"; "signal 77" for one without a name.
std::string SignalName(int number);

}  // namespace farandole::agent::processes

#endif  // FARANDOLE_AGENT_PROCESSES_PROCESS_END_H_
