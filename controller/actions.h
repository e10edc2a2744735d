#ifndef FARANDOLE_CONTROLLER_ACTIONS_H_
#define FARANDOLE_CONTROLLER_ACTIONS_H_

#include <string>
#include <utility>
#include <vector>

#include "proto/messages.h"

namespace farandole {

struct Send {
  std::string agent_id;
  AgentDown message;
};

// Outcome of one step: what to send, in this order, and one sentence for the log that says why ("" = nothing happened
// that a person would ask about).
struct Actions {
  std::vector<Send> sends;
  std::string reason;

  void ToWorker(const std::string& agent_id, Incarnation worker, WorkerDown message) {
    sends.push_back({agent_id, ToWorkers{{worker}, std::move(message)}});
  }
  // Several things happened in one step: their sentences are joined, the first few KiB of them.
  void Because(const std::string& sentence) {
    constexpr size_t kReasonBytesMax = 4096;
    if (reason.size() > kReasonBytesMax) return;
    if (!reason.empty()) reason += "; ";
    reason += sentence;
  }
};

}  // namespace farandole

#endif  // FARANDOLE_CONTROLLER_ACTIONS_H_
