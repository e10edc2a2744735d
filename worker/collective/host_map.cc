#include "worker/collective/host_map.h"

#include <map>

#include "absl/strings/str_cat.h"

namespace farandole::worker::collective {

HostMap::HostMap(const Group& group) {
  std::map<int32_t, int> numbers;
  for (size_t position = 0; position < group.members.size(); ++position) {
    const int next = static_cast<int>(numbers.size());
    const int host = numbers.emplace(group.members[position].host_number, next).first->second;
    if (host == next) hosts_.emplace_back();
    host_of_.push_back(host);
    local_of_.push_back(static_cast<int>(hosts_[host].size()));
    hosts_[host].push_back(static_cast<int>(position));
  }
  for (const std::vector<int>& members : hosts_) {
    even_ = even_ && members.size() == hosts_[0].size();
    by_host_.insert(by_host_.end(), members.begin(), members.end());
  }
}

Group HostMap::Of(const Group& group, const std::vector<int>& positions, const std::string& suffix) {
  Group part = group;
  part.key = absl::StrCat(group.key, suffix);
  part.members.clear();
  for (int position : positions) {
    if (position == group.position) part.position = static_cast<int>(part.members.size());
    part.members.push_back(group.members[position]);
  }
  return part;
}

Group HostMap::Local(const Group& group) const {
  const int host = host_of_[group.position];
  return Of(group, hosts_[host], absl::StrCat(".h", host));
}

Group HostMap::Across(const Group& group) const {
  const int local = local_of_[group.position];
  std::vector<int> positions;
  for (const std::vector<int>& members : hosts_) positions.push_back(members[local]);
  return Of(group, positions, absl::StrCat(".x", local));
}

}  // namespace farandole::worker::collective
