#ifndef FARANDOLE_WORKER_COLLECTIVE_HOST_MAP_H_
#define FARANDOLE_WORKER_COLLECTIVE_HOST_MAP_H_

#include <string>
#include <vector>

#include "worker/collective/group.h"

namespace farandole::worker::collective {

// How the members of a group lie on hosts, as positions. Pure arithmetic, the same on all members.
//
// Hosts are numbered by their first members; the members of one are local 0, 1, ... in order of position, and local 0
// leads it. Where all hosts have equally many, those with the same local number form a ring across the hosts.
class HostMap {
 public:
  explicit HostMap(const Group& group);

  int hosts() const { return static_cast<int>(hosts_.size()); }
  // Positions of the members of a host, rising.
  const std::vector<int>& members(int host) const { return hosts_[host]; }
  int host_of(int position) const { return host_of_[position]; }
  int local_of(int position) const { return local_of_[position]; }
  // All hosts have equally many members.
  bool even() const { return even_; }
  // Positions host by host: what is gathered from leaders comes in this order.
  const std::vector<int>& by_host() const { return by_host_; }

  // The members on the host of `group.position`. Keys of sub-groups are made from that of the group.
  Group Local(const Group& group) const;
  // The members with the same local number as `group.position`, one of each host; every host has to have one.
  Group Across(const Group& group) const;

 private:
  static Group Of(const Group& group, const std::vector<int>& positions, const std::string& suffix);

  std::vector<std::vector<int>> hosts_;
  std::vector<int> host_of_, local_of_, by_host_;
  bool even_ = true;
};

}  // namespace farandole::worker::collective

#endif  // FARANDOLE_WORKER_COLLECTIVE_HOST_MAP_H_
