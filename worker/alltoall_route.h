#ifndef FARANDOLE_WORKER_ALLTOALL_ROUTE_H_
#define FARANDOLE_WORKER_ALLTOALL_ROUTE_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "worker/host_map.h"

namespace farandole {

// The way of an alltoall among members on several hosts: each block goes in its source's host to a member that goes
// across, the carrier, with the others of that host across to the destination's host, and there to its destination.
// Where hosts are even the carrier of a block has the local number of its destination, so that the third step is
// empty; else the leaders carry. Pure arithmetic: who has which blocks when, in which order.
class AlltoallRoute {
 public:
  // A block is what one member has for another: positions of source and destination.
  using Blocks = std::vector<std::pair<int, int>>;

  // `byte_matrix` as in Communicator::Alltoall; both outlive this.
  AlltoallRoute(const HostMap* map, int position, const std::vector<int64_t>* byte_matrix);

  // What this member has at first, and in the end.
  Blocks Input() const;
  Blocks Output() const;
  // What it sends in its host, by carrier, and what it gets there.
  Blocks ToCarriers() const;
  Blocks AtCarrier() const;
  // What it sends across, by host, and gets from there.
  Blocks ToHosts() const;
  Blocks FromHosts() const;
  // What it sends to members of its host after that, and gets; empty and the same as FromHosts if hosts are even.
  Blocks ToMembers() const;
  Blocks Arrived() const;

  // The matrices of the three alltoalls, by local number, by host, by local number.
  std::vector<int64_t> CarrierMatrix() const;
  std::vector<int64_t> HostMatrix() const;
  std::vector<int64_t> MemberMatrix() const;

  int64_t BytesOf(const Blocks& blocks) const;
  // Copies blocks that lie one behind the other in one order into another order.
  void Repack(const Blocks& from_order, const char* from, const Blocks& to_order, char* to) const;

 private:
  // Members of a host whose blocks the member `local` of each host carries.
  std::vector<int> ServedBy(int local, int host) const;
  int64_t Bytes(int source, int destination) const;

  const HostMap& map_;
  const int position_, host_, local_;
  const std::vector<int64_t>& byte_matrix_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ALLTOALL_ROUTE_H_
