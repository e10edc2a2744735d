#include "controller/members/last_generations.h"

namespace farandole::controller::members {

uint64_t LastGenerations::Of(const std::string& job) const {
  const auto it = places_.find(job);
  return it == places_.end() ? 0 : it->second->second;
}

void LastGenerations::Keep(const std::string& job, uint64_t number) {
  if (number == 0 || jobs_max_ == 0) return;
  const auto it = places_.find(job);
  if (it != places_.end()) {
    it->second->second = number;
    by_age_.splice(by_age_.end(), by_age_, it->second);
    return;
  }
  if (by_age_.size() == jobs_max_) {
    places_.erase(by_age_.front().first);
    by_age_.pop_front();
  }
  places_[job] = by_age_.insert(by_age_.end(), {job, number});
}

}  // namespace farandole::controller::members
