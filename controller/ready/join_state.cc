#include "controller/ready/join_state.h"

#include <algorithm>

namespace farandole::controller::ready {

bool JoinState::Join(Rank rank, const std::string& name, TimePoint now) {
  if (!ranks_.Add(rank)) return false;
  if (order_.empty()) since_ = now;
  order_.push_back(rank);
  auto it = std::find_if(names_.begin(), names_.end(), [&](const auto& n) { return n.first == name; });
  if (it == names_.end()) it = names_.insert(it, {name, {}});
  it->second.Add(rank);
  return true;
}

void JoinState::TakeBack(Rank rank) {
  if (!ranks_.Remove(rank)) return;
  order_.erase(std::find(order_.begin(), order_.end(), rank));
  for (auto it = names_.begin(); it != names_.end();) {
    it->second.Remove(rank);
    it = it->second.empty() ? names_.erase(it) : it + 1;
  }
}

void JoinState::Reset() {
  ranks_.Clear();
  order_.clear();
  names_.clear();
}

}  // namespace farandole::controller::ready
