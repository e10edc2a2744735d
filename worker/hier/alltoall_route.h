#ifndef FARANDOLE_WORKER_HIER_ALLTOALL_ROUTE_H_
#define FARANDOLE_WORKER_HIER_ALLTOALL_ROUTE_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "worker/collective/host_map.h"

namespace farandole::worker::hier {

// The way of an alltoall among members on several hosts: each block goes in its source's host to a member that goes
// across, the carrier, with the others of that host across to the destination's host, and there to its destination.
// Where hosts are even the carrier of a block has the local number of its destination, so that the third step is
// empty; else the leaders carry. Pure arithmetic: who has which blocks when, in which order.
//
// A member knows only what it sends and gets itself. What else it has to know to carry, those of its host tell it first
// (Told, Hear): with H hosts and N members each tells each carrier H numbers if hosts are even, else its leader 2 N.
class AlltoallRoute {
 public:
  // A block is what one member has for another: positions of source and destination.
  using Blocks = std::vector<std::pair<int, int>>;

  // Bytes as in Communicator::Alltoall; `map` outlives this.
  AlltoallRoute(const collective::HostMap* map, int position, const std::vector<int64_t>& send_bytes,
                const std::vector<int64_t>& receive_bytes);

  // What this member tells the carriers of its host, one carrier's numbers behind the other's, and how many bytes that
  // is for each and from each, by local number.
  std::vector<int64_t> Told() const;
  std::vector<int64_t> TellBytes() const;
  std::vector<int64_t> HearBytes() const;
  // What the members of the host have told this one, in order. False: it cannot be. What follows needs it.
  bool Hear(const std::vector<int64_t>& numbers);

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

  // What this member sends and gets in the three alltoalls, by local number, by host, by local number.
  std::vector<int64_t> ToCarrierBytes() const;
  std::vector<int64_t> AtCarrierBytes() const;
  std::vector<int64_t> ToHostBytes() const;
  std::vector<int64_t> FromHostBytes() const;
  std::vector<int64_t> ToMemberBytes() const;
  std::vector<int64_t> ArrivedBytes() const;

  int64_t BytesOf(const Blocks& blocks) const;
  // Copies blocks that lie one behind the other in one order into another order.
  void Repack(const Blocks& from_order, const char* from, const Blocks& to_order, char* to) const;

 private:
  // Members of a host whose blocks the member `local` of each host carries.
  std::vector<int> ServedBy(int local, int host) const;
  // How many numbers a member of this host tells the carrier `local`.
  int64_t NumbersFor(int local) const;
  int64_t Bytes(int source, int destination) const;

  const collective::HostMap& map_;
  const int position_, host_, local_;
  // As far as they are known, for each member of this host: what it sends to and gets from all, by position.
  std::vector<std::vector<int64_t>> sends_, gets_;
};

}  // namespace farandole::worker::hier

#endif  // FARANDOLE_WORKER_HIER_ALLTOALL_ROUTE_H_
