#ifndef FARANDOLE_AGENT_CORE_AGENT_PROGRAM_H_
#define FARANDOLE_AGENT_CORE_AGENT_PROGRAM_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace farandole::agent::core {

// farandole-agent as a process of its own, for tests. Killed, with what it started, if it has not ended.
class AgentProgram {
 public:
  struct Options {
    std::string controller = "127.0.0.1:1";
    std::string token = "secret";
    int size = 1;
    std::vector<std::string> more;  // further arguments
    std::vector<std::string> command;
    std::vector<std::string> wrapper;  // in front of the program itself
  };

  explicit AgentProgram(const Options& options);
  ~AgentProgram();

  pid_t pid() const { return pid_; }
  const std::string& out() const { return out_; }
  const std::string& err() const { return err_; }

  // Reads output until both streams have ended, then the exit code; -1 if that takes too long.
  int Wait();
  // Reads output until `text` has come on either stream.
  bool WaitFor(const std::string& text);
  // Closes the write end of the lifeline.
  void CloseLifeline() { lifeline_.Reset(); }

 private:
  // False at the end of both.
  bool ReadSome();

  pid_t pid_ = -1;
  UniqueFd out_fd_, err_fd_, lifeline_;
  std::string out_, err_;
};

// The fake worker as a command: `verbs` are its arguments.
std::vector<std::string> FakeWorkerCommand(std::vector<std::string> verbs);
// A different list of verbs for each rank.
std::vector<std::string> FakeWorkersByRank(const std::vector<std::string>& verbs);
// Waits until no process with this pid runs (a zombie does not).
bool WaitUntilGone(pid_t pid);

}  // namespace farandole::agent::core

#endif  // FARANDOLE_AGENT_CORE_AGENT_PROGRAM_H_
