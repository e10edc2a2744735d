#ifndef FARANDOLE_CONTROLLER_RPC_JOB_LIST_H_
#define FARANDOLE_CONTROLLER_RPC_JOB_LIST_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "controller/hub/hub.h"
#include "farandole/v1/status.pb.h"

namespace farandole::controller::rpc {

// All jobs of a hub in short. Made at most once a second, whatever is asked for: a namespace may have many jobs, and
// the hub does nothing else meanwhile. On the hub's strand.
class JobList {
 public:
  static constexpr int64_t kKeptMs = 1000;

  // `hub` outlives this.
  explicit JobList(const hub::Hub* hub) : hub_(hub) {}

  // The jobs of a namespace, without their parts, by name; at most kKeptMs old.
  void Write(absl::string_view name, v1::ListJobsReply* reply);

 private:
  const hub::Hub* const hub_;
  v1::ListJobsReply all_;
  bool made_ = false;
  TimePoint made_at_;
};

}  // namespace farandole::controller::rpc

#endif  // FARANDOLE_CONTROLLER_RPC_JOB_LIST_H_
