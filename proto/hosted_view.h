#ifndef FARANDOLE_PROTO_HOSTED_VIEW_H_
#define FARANDOLE_PROTO_HOSTED_VIEW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/types.h"

namespace farandole {

// The members that have one agent: entry i of each list is about the same one.
struct ViewHost {
  std::string name;
  std::string agent_id;
  std::vector<Rank> ranks;  // rising
  std::vector<int64_t> pids;
  std::vector<Incarnation> worker_incarnations;
};

// A view as it travels, since every member gets it: what the members of a host have in common is said once, and what
// follows from the rest (the local and cross positions) not at all.
struct HostedView {
  GenerationId generation;
  std::vector<ViewHost> hosts;  // by first rank
  std::string data_key;
};

// `view.members` are ordered by rank.
HostedView ByHost(const View& view);
// Null, or what is wrong with it.
const char* ByRank(const HostedView& hosted, View* view);

// Local positions among the members with the same agent, cross positions among those with the same local rank, both in
// the order of `members`.
void Place(std::vector<Member>* members);

}  // namespace farandole

#endif  // FARANDOLE_PROTO_HOSTED_VIEW_H_
