#ifndef FARANDOLE_PROTO_RULES_HOSTED_VIEW_H_
#define FARANDOLE_PROTO_RULES_HOSTED_VIEW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/types.h"

namespace farandole {

// The members that have one agent: entry i of each list is about the host's i-th lowest rank.
struct ViewHost {
  std::string name;
  std::string agent_id;
  uint32_t number = 0;
  std::vector<int64_t> pids;
  std::vector<Incarnation> worker_incarnations;
  std::vector<uint32_t> homes;  // empty: all are 0
};

// Hosts first, first + 1, ...: each has the next ranks.
struct HostRun {
  uint32_t first = 0;
  uint32_t hosts = 0;
  uint32_t ranks_each = 0;
};

// A view as it travels, since every member gets it: where the ranks are in a few numbers, the rest host by host and to
// most members of their own host alone; what follows from that (the local and cross positions) not at all.
struct HostedView {
  GenerationId generation;
  std::vector<ViewHost> hosts;  // numbers rise
  std::string data_key;
  std::vector<HostRun> runs;  // from rank 0 on
};

// The members of the first so many hosts are told of all.
inline constexpr uint32_t kHostsThatKnowAll = 64;

// `view.members` are ordered by rank and have their local and cross ranks. Hosts whose members are not known are left
// out.
HostedView ByHost(const View& view);
// Null, or what is wrong with it.
const char* ByRank(const HostedView& hosted, View* view);

// From the agents and homes of `members`, in their order: host numbers, local positions among the members of a host,
// cross positions among those with the same local rank.
void SetPositions(std::vector<Member>* members);

}  // namespace farandole

#endif  // FARANDOLE_PROTO_RULES_HOSTED_VIEW_H_
