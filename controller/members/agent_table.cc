#include "controller/members/agent_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace farandole::controller::members {

void AgentTable::Connect(const AgentHello& hello, TimePoint now) {
  Agent& agent = agents_[hello.agent_id];
  agent = Agent{};
  agent.host = hello.host;
  agent.run = hello.run;
  agent.takes_workers_along = hello.takes_workers_along;
  agent.since = now;
  closed_with_workers_.erase(hello.agent_id);
  CheckBy(now.PlusMs(suspect_after_ms_));
}

void AgentTable::Disconnect(const std::string& agent_id, TimePoint now) {
  const auto it = agents_.find(agent_id);
  if (it == agents_.end() || !it->second.connected) return;
  it->second.connected = false;
  it->second.suspect = true;
  it->second.lost = now;
  CheckBy(DueOf(it->second));
  const bool heard = now.MsSince(it->second.since) < suspect_after_ms_;
  if (it->second.takes_workers_along && heard) closed_with_workers_.insert(agent_id);
}

void AgentTable::GiveUpSoon(const std::string& agent_id, uint32_t after_ms) {
  if (closed_with_workers_.count(agent_id) == 0) return;
  Agent& agent = agents_.at(agent_id);
  agent.soon_ms = std::min(after_ms, agent.soon_ms.value_or(after_ms));
  CheckBy(DueOf(agent));
}

// When one that is silent is given up.
TimePoint AgentTable::DueOf(const Agent& agent) const {
  const TimePoint due = agent.since.PlusMs(std::max(give_up_after_ms_, suspect_after_ms_));
  return agent.soon_ms ? std::min(due, agent.lost.PlusMs(*agent.soon_ms)) : due;
}

bool AgentTable::Heard(const std::string& agent_id, TimePoint now) {
  const auto it = agents_.find(agent_id);
  if (it == agents_.end() || !it->second.connected) return false;
  Agent& agent = it->second;
  agent.since = now;
  if (agent.suspect) {
    agent.suspect = false;
    agent.given_up = false;
    CheckBy(now.PlusMs(suspect_after_ms_));
  }
  return true;
}

std::string AgentTable::Text(const Agent& agent, TimePoint now) const {
  const int64_t silent_s = now.MsSince(agent.since) / 1000;
  if (agent.connected) return absl::StrCat("the agent on host ", agent.host, " has been silent for ", silent_s, " s");
  const int64_t lost_ms = now.MsSince(agent.lost);
  std::string text = absl::StrCat("the connection of the agent on host ", agent.host, " was lost ");
  if (agent.soon_ms) return absl::StrCat(text, lost_ms, " ms ago, and its workers end with it");
  absl::StrAppend(&text, lost_ms / 1000, " s ago");
  // A link that was cut without a word.
  if (agent.lost.MsSince(agent.since) >= suspect_after_ms_) absl::StrAppend(&text, ", silent for ", silent_s, " s");
  return text;
}

void AgentTable::StoodStill(int64_t ms, TimePoint now) {
  for (auto& entry : agents_) {
    Agent& agent = entry.second;
    agent.since = std::min(agent.since.PlusMs(ms), now);
    agent.lost = std::min(agent.lost.PlusMs(ms), now);
  }
}

std::vector<AgentTable::Change> AgentTable::Tick(TimePoint now) {
  std::vector<Change> changes;
  if (now < next_check_) return changes;
  next_check_ = TimePoint::Infinite();
  for (auto& entry : agents_) {
    Agent& agent = entry.second;
    if (!agent.suspect) {
      const TimePoint due = agent.since.PlusMs(suspect_after_ms_);
      if (now < due) {
        CheckBy(due);
        continue;
      }
      agent.suspect = true;
      changes.push_back({entry.first, Text(agent, now), false});
    }
    if (agent.given_up) continue;
    const TimePoint due = DueOf(agent);
    if (now < due) {
      CheckBy(due);
      continue;
    }
    agent.given_up = true;
    closed_with_workers_.erase(entry.first);
    changes.push_back({entry.first, Text(agent, now), true});
  }
  std::stable_sort(changes.begin(), changes.end(),
                   [](const Change& a, const Change& b) { return a.agent_id < b.agent_id; });
  return changes;
}

bool AgentTable::Connected(const std::string& agent_id) const {
  const auto it = agents_.find(agent_id);
  return it != agents_.end() && it->second.connected;
}

std::string AgentTable::Suspicion(const std::string& agent_id, TimePoint now) const {
  const auto it = agents_.find(agent_id);
  if (it == agents_.end()) return "its agent is gone";
  return it->second.suspect ? Text(it->second, now) : "";
}

std::string AgentTable::Host(const std::string& agent_id) const {
  const auto it = agents_.find(agent_id);
  return it == agents_.end() ? "" : it->second.host;
}

std::string AgentTable::Run(const std::string& agent_id) const {
  const auto it = agents_.find(agent_id);
  return it == agents_.end() ? "" : it->second.run;
}

bool AgentTable::AnyConnected() const {
  return std::any_of(agents_.begin(), agents_.end(), [](const auto& entry) { return entry.second.connected; });
}

}  // namespace farandole::controller::members
