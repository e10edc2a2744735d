#ifndef FARANDOLE_CONTROLLER_RPC_CALL_COUNT_H_
#define FARANDOLE_CONTROLLER_RPC_CALL_COUNT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace farandole::controller::rpc {

// Bounds how many calls of one kind are under way, for each whole job, its parts included, and in all: who may ask for
// one job keeps nobody out who asks for another. Copies count together. Any thread.
class CallCount {
 public:
  // Counts a call as long as somebody has it. May outlive the count.
  using Permit = std::shared_ptr<void>;

  // `what` names the calls in errors, "watches".
  CallCount(std::string what, int per_job_max, int all_max);

  // RESOURCE_EXHAUSTED: there are as many as may be.
  absl::StatusOr<Permit> Take(absl::string_view job) const;

 private:
  struct State;

  std::string what_;
  int per_job_max_;
  int all_max_;
  std::shared_ptr<State> state_;
};

}  // namespace farandole::controller::rpc

#endif  // FARANDOLE_CONTROLLER_RPC_CALL_COUNT_H_
