#ifndef FARANDOLE_PERF_CONTROL_SERVER_PROCESS_H_
#define FARANDOLE_PERF_CONTROL_SERVER_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace farandole::perf::control {

// A farandole-controller, or a peer of it that takes the same options, as a child on a port of loopback. Killed with
// this object, and by itself when this process ends.
class ServerProcess {
 public:
  // `command`: program and options; key, readiness and lifeline are added. Waits at most 10 s for its address.
  static absl::StatusOr<std::unique_ptr<ServerProcess>> Start(std::vector<std::string> command, const std::string& key);
  ~ServerProcess();

  pid_t pid() const { return pid_; }
  const std::string& address() const { return address_; }  // host:port

 private:
  ServerProcess(pid_t pid, UniqueFd lifeline) : pid_(pid), lifeline_(std::move(lifeline)) {}
  absl::Status ReadAddress(int fd);

  const pid_t pid_;
  const UniqueFd lifeline_;
  std::string address_;
};

}  // namespace farandole::perf::control

#endif  // FARANDOLE_PERF_CONTROL_SERVER_PROCESS_H_
