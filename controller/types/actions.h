#ifndef FARANDOLE_CONTROLLER_TYPES_ACTIONS_H_
#define FARANDOLE_CONTROLLER_TYPES_ACTIONS_H_

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "proto/messages.h"

namespace farandole::controller {

// Workers behind one agent; none when the message is for the agent itself.
struct Route {
  std::string agent_id;
  std::vector<Incarnation> workers;
};
// Shared by messages that go the same ways.
using Routes = std::shared_ptr<const std::vector<Route>>;

// One message, once per agent. What ten thousand ranks are told is held, and encoded, once.
struct Send {
  Routes to;
  std::variant<AgentWelcome, WorkerDown> message;
};

// What a Send says to one agent.
struct AgentSend {
  std::string agent_id;
  AgentDown message;
};
inline std::vector<AgentSend> EachAgent(const Send& send) {
  std::vector<AgentSend> each;
  for (const Route& route : *send.to) {
    if (const auto* welcome = std::get_if<AgentWelcome>(&send.message)) {
      each.push_back({route.agent_id, *welcome});
    } else {
      each.push_back({route.agent_id, ToWorkers{route.workers, std::get<WorkerDown>(send.message)}});
    }
  }
  return each;
}

// Outcome of one step: what to send, in this order, and one sentence for the log that says why ("" = nothing happened
// that a person would ask about).
struct Actions {
  std::vector<Send> sends;
  std::string reason;

  void ToWorker(const std::string& agent_id, Incarnation worker, WorkerDown message) {
    To(std::make_shared<std::vector<Route>>(1, Route{agent_id, {worker}}), std::move(message));
  }
  void To(Routes routes, WorkerDown message) {
    if (!routes->empty()) sends.push_back({std::move(routes), std::move(message)});
  }
  // Several things happened in one step: their sentences are joined, the first few KiB of them.
  void Because(const std::string& sentence) {
    constexpr size_t kReasonBytesMax = 4096;
    if (reason.size() > kReasonBytesMax) return;
    if (!reason.empty()) reason += "; ";
    reason += sentence;
  }
};

}  // namespace farandole::controller

#endif  // FARANDOLE_CONTROLLER_TYPES_ACTIONS_H_
