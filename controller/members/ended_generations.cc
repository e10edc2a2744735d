#include "controller/members/ended_generations.h"

#include <algorithm>

namespace farandole::controller::members {

void EndedGenerations::Keep(const std::string& job, EndedGeneration ended) {
  if (ended.id.number == 0 || ended.reason.empty()) return;
  by_age_.erase(std::remove_if(by_age_.begin(), by_age_.end(), [&](const auto& entry) { return entry.first == job; }),
                by_age_.end());
  by_age_.emplace_back(job, std::move(ended));
  if (by_age_.size() > kMax) by_age_.pop_front();
}

EndedGeneration EndedGenerations::Find(const std::string& job) const {
  for (const auto& [name, ended] : by_age_) {
    if (name == job) return ended;
  }
  return EndedGeneration();
}

}  // namespace farandole::controller::members
