#include "proto/hosted_view.h"

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace farandole {

HostedView ByHost(const View& view) {
  HostedView hosted;
  hosted.generation = view.generation;
  hosted.data_key = view.data_key;
  absl::flat_hash_map<absl::string_view, size_t> by_agent;
  for (const Member& member : view.members) {
    const size_t at = by_agent.emplace(member.agent_id, hosted.hosts.size()).first->second;
    if (at == hosted.hosts.size()) hosted.hosts.push_back({member.host, member.agent_id, {}, {}, {}});
    ViewHost& host = hosted.hosts[at];
    host.ranks.push_back(member.rank);
    host.pids.push_back(member.pid);
    host.worker_incarnations.push_back(member.worker_incarnation);
  }
  return hosted;
}

const char* ByRank(const HostedView& hosted, View* view) {
  view->generation = hosted.generation;
  view->data_key = hosted.data_key;
  size_t count = 0;
  for (const ViewHost& host : hosted.hosts) {
    if (host.ranks.empty() || host.pids.size() != host.ranks.size() ||
        host.worker_incarnations.size() != host.ranks.size()) {
      return "a host without members, or lists of different lengths";
    }
    count += host.ranks.size();
  }
  view->members.assign(count, Member());
  for (const ViewHost& host : hosted.hosts) {
    for (size_t i = 0; i < host.ranks.size(); ++i) {
      const int32_t rank = host.ranks[i].value();
      if (rank < 0 || static_cast<size_t>(rank) >= count || view->members[rank].rank.known()) {
        return "ranks are not 0, 1, 2, ..., each once";
      }
      Member& member = view->members[rank];
      member.rank = host.ranks[i];
      member.host = host.name;
      member.agent_id = host.agent_id;
      member.pid = host.pids[i];
      member.worker_incarnation = host.worker_incarnations[i];
    }
  }
  Place(&view->members);
  return nullptr;
}

void Place(std::vector<Member>* members) {
  absl::flat_hash_map<absl::string_view, int32_t> local_sizes;  // by agent
  std::vector<int32_t> cross_sizes;                             // by local rank
  for (Member& member : *members) {
    member.local_rank = local_sizes[member.agent_id]++;
    if (member.local_rank >= static_cast<int32_t>(cross_sizes.size())) cross_sizes.push_back(0);
    member.cross_rank = cross_sizes[member.local_rank]++;
  }
  for (Member& member : *members) {
    member.local_size = local_sizes[member.agent_id];
    member.cross_size = cross_sizes[member.local_rank];
  }
}

}  // namespace farandole
