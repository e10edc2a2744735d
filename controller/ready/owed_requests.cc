#include "controller/ready/owed_requests.h"

#include <iterator>

namespace farandole::controller::ready {

void OwedRequests::Announced(uint32_t process_set, const std::string& name, const std::vector<Rank>& ranks) {
  const auto it = owed_.find({process_set, name});
  if (it == owed_.end()) return;
  for (Rank rank : ranks) it->second.Remove(rank);
  if (it->second.empty()) owed_.erase(it);
}

void OwedRequests::Forget(Rank rank) {
  for (auto it = owed_.begin(); it != owed_.end();) {
    it->second.Remove(rank);
    it = it->second.empty() ? owed_.erase(it) : std::next(it);
  }
}

std::string OwedRequests::FirstOf(uint32_t process_set) const {
  const auto first = owed_.lower_bound({process_set, ""});
  return first == owed_.end() || first->first.first != process_set ? "" : first->first.second;
}

RankSet OwedRequests::Without(RankSet ranks, uint32_t process_set, const std::string& name) const {
  if (const auto it = owed_.find({process_set, name}); it != owed_.end()) ranks.RemoveAll(it->second);
  return ranks;
}

}  // namespace farandole::controller::ready
