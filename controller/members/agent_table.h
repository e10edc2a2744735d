#ifndef FARANDOLE_CONTROLLER_MEMBERS_AGENT_TABLE_H_
#define FARANDOLE_CONTROLLER_MEMBERS_AGENT_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/optional.h"
#include "base/clock.h"
#include "proto/messages.h"

namespace farandole::controller::members {

// The agents of a job and how long each has been silent. Pure. A message costs O(1); deadlines are looked at again only
// when the earliest one could have come.
//
//   connected --silent or stream lost--> suspect --speaks or connects--> connected
//   suspect --give_up_after_ms, or sooner (GiveUpSoon)--> given up (once) --speaks or connects--> connected
class AgentTable {
 public:
  AgentTable(uint32_t suspect_after_ms, uint32_t give_up_after_ms)
      : suspect_after_ms_(suspect_after_ms), give_up_after_ms_(give_up_after_ms) {}

  void Connect(const AgentHello& hello, TimePoint now);
  // Suspect at once. It is given up as early as if the stream were still there: who notices its loss late has lost that
  // time already.
  void Disconnect(const std::string& agent_id, TimePoint now);
  // Any message. False if the agent is not connected: the message must be ignored.
  bool Heard(const std::string& agent_id, TimePoint now);
  void Forget(const std::string& agent_id) {
    agents_.erase(agent_id);
    closed_with_workers_.erase(agent_id);
  }
  // Those that take their workers along, and whose connection was closed while they were heard: by themselves, not by
  // the silence of a network. Without those that are given up.
  const std::set<std::string>& closed_with_workers() const { return closed_with_workers_; }
  // One of these is given up at the latest so long after its connection was lost.
  void GiveUpSoon(const std::string& agent_id, uint32_t after_ms);

  struct Change {
    std::string agent_id;
    std::string text;  // "the agent on host b has been silent for 3 s"
    bool given_up = false;
  };
  // Nobody was heard for so long because this process stood still itself.
  void StoodStill(int64_t ms, TimePoint now);
  // Agents that became suspect or are to be given up at `now`.
  std::vector<Change> Tick(TimePoint now);
  TimePoint NextDeadline() const { return next_check_; }

  // Those that are connected, or have been and are not forgotten.
  size_t size() const { return agents_.size(); }
  bool Knows(const std::string& agent_id) const { return agents_.contains(agent_id); }
  bool Connected(const std::string& agent_id) const;
  // Why the agent's workers are unresponsive; "" if they are not.
  std::string Suspicion(const std::string& agent_id, TimePoint now) const;
  // "" for an unknown one.
  std::string Host(const std::string& agent_id) const;
  std::string Run(const std::string& agent_id) const;
  bool AnyConnected() const;

 private:
  struct Agent {
    std::string host;
    std::string run;
    bool takes_workers_along = false;
    bool connected = true;
    bool suspect = false;
    bool given_up = false;
    TimePoint since;  // last heard
    TimePoint lost;   // its stream, if not connected
    absl::optional<uint32_t> soon_ms;
  };
  TimePoint DueOf(const Agent& agent) const;
  std::string Text(const Agent& agent, TimePoint now) const;
  void CheckBy(TimePoint when) {
    if (when < next_check_) next_check_ = when;
  }

  const uint32_t suspect_after_ms_;
  const uint32_t give_up_after_ms_;
  absl::flat_hash_map<std::string, Agent> agents_;
  std::set<std::string> closed_with_workers_;
  TimePoint next_check_ = TimePoint::Infinite();
};

}  // namespace farandole::controller::members

#endif  // FARANDOLE_CONTROLLER_MEMBERS_AGENT_TABLE_H_
