#include "controller/members/last_generations.h"

namespace farandole::controller::members {

uint64_t LastGenerations::Of(const std::string& job) const {
  const auto it = numbers_.find(job);
  return it == numbers_.end() ? 0 : it->second;
}

void LastGenerations::Keep(const std::string& job, uint64_t number) {
  if (number == 0 || jobs_max_ == 0) return;
  const auto it = numbers_.find(job);
  if (it != numbers_.end()) {
    it->second = number;
    return;
  }
  if (order_.size() == jobs_max_) {
    numbers_.erase(order_.front());
    order_.pop_front();
  }
  numbers_[job] = number;
  order_.push_back(job);
}

}  // namespace farandole::controller::members
