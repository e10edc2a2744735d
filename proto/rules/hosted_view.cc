#include "proto/rules/hosted_view.h"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace farandole {
namespace {

// Of a view that somebody else sent.
constexpr size_t kRanksMax = 65536;

// The ranks host by host, each host's in a row.
struct Stretch {
  uint32_t host = 0;
  uint32_t ranks = 0;
};

void Append(const Stretch& stretch, std::vector<HostRun>* runs) {
  if (!runs->empty()) {
    HostRun& last = runs->back();
    if (last.first + last.hosts == stretch.host && last.ranks_each == stretch.ranks) {
      ++last.hosts;
      return;
    }
  }
  runs->push_back({stretch.host, 1, stretch.ranks});
}

std::vector<HostRun> RunsOf(const std::vector<Member>& members) {
  std::vector<HostRun> runs;
  Stretch stretch;
  for (const Member& member : members) {
    const auto host = static_cast<uint32_t>(member.host_number);
    if (stretch.ranks > 0 && stretch.host != host) {
      Append(stretch, &runs);
      stretch.ranks = 0;
    }
    stretch.host = host;
    ++stretch.ranks;
  }
  if (stretch.ranks > 0) Append(stretch, &runs);
  return runs;
}

// Positions, of members with a host number.
void PlaceNumbered(std::vector<Member>* members) {
  std::vector<int32_t> local_sizes;  // by host
  std::vector<int32_t> cross_sizes;  // by local rank
  for (Member& member : *members) {
    const auto host = static_cast<size_t>(member.host_number);
    if (host >= local_sizes.size()) local_sizes.resize(host + 1);
    member.local_rank = local_sizes[host]++;
    if (member.local_rank >= static_cast<int32_t>(cross_sizes.size())) cross_sizes.push_back(0);
    member.cross_rank = cross_sizes[member.local_rank]++;
  }
  for (Member& member : *members) {
    member.local_size = local_sizes[member.host_number];
    member.cross_size = cross_sizes[member.local_rank];
  }
}

// A process keeps the local rank that its script has chosen a GPU by, whoever of its host has ended or come since: else
// a new process would be told one whose GPU another one has. No more is exchanged than positions within the host.
void SettleAtHome(const std::vector<Member*>& host) {
  const auto local_rank_at_home = [](const Member& member) { return size_t{member.home} - 1; };
  std::vector<std::pair<int32_t, int32_t>> cross;  // rank and size by local rank
  for (const Member* member : host) cross.emplace_back(member->cross_rank, member->cross_size);
  std::vector<Member*> settled(host.size());
  std::vector<Member*> others;
  for (Member* member : host) {
    const bool at_home = member->home > 0 && local_rank_at_home(*member) < settled.size() &&
                         settled[local_rank_at_home(*member)] == nullptr;
    if (at_home) settled[local_rank_at_home(*member)] = member;
    if (!at_home) others.push_back(member);
  }
  auto next = others.begin();
  for (size_t i = 0; i < settled.size(); ++i) {
    Member* const member = settled[i] != nullptr ? settled[i] : *next++;
    member->local_rank = static_cast<int32_t>(i);
    std::tie(member->cross_rank, member->cross_size) = cross[i];
  }
}

void SettleAtHomes(std::vector<Member>* members) {
  absl::flat_hash_map<int32_t, std::vector<Member*>> hosts;  // those where a member has a home
  for (const Member& member : *members) {
    if (member.home > 0) hosts[member.host_number];
  }
  if (hosts.empty()) return;
  for (Member& member : *members) {
    const auto host = hosts.find(member.host_number);
    if (host != hosts.end()) host->second.push_back(&member);
  }
  for (const auto& [number, host] : hosts) SettleAtHome(host);
}

const char* Unroll(const std::vector<HostRun>& runs, std::vector<Member>* members) {
  size_t hosts = 0;
  for (const HostRun& run : runs) {
    if (run.hosts == 0 || run.ranks_each == 0) return "a run of no ranks";
    if (run.first > hosts) return "hosts are not numbered by their first ranks";
    if (run.hosts > kRanksMax || run.ranks_each > kRanksMax ||
        members->size() + size_t{run.hosts} * run.ranks_each > kRanksMax) {
      return "too many ranks";
    }
    hosts = std::max(hosts, size_t{run.first} + run.hosts);
    for (uint32_t i = 0; i < run.hosts * run.ranks_each; ++i) {
      Member member;
      member.rank = Rank(static_cast<int32_t>(members->size()));
      member.host_number = static_cast<int32_t>(run.first + i / run.ranks_each);
      members->push_back(member);
    }
  }
  return nullptr;
}

}  // namespace

HostedView ByHost(const View& view) {
  HostedView hosted;
  hosted.generation = view.generation;
  hosted.data_key = view.data_key;
  hosted.runs = RunsOf(view.members);
  absl::flat_hash_map<int32_t, size_t> indices;  // by host number
  for (const Member& member : view.members) {
    if (!member.known()) continue;
    const size_t at = indices.emplace(member.host_number, hosted.hosts.size()).first->second;
    if (at == hosted.hosts.size()) {
      hosted.hosts.push_back({member.host, member.agent_id, static_cast<uint32_t>(member.host_number), {}, {}, {}});
    }
    hosted.hosts[at].pids.push_back(member.pid);
    hosted.hosts[at].worker_incarnations.push_back(member.worker_incarnation);
    hosted.hosts[at].homes.push_back(member.home);
  }
  for (ViewHost& host : hosted.hosts) {
    if (std::all_of(host.homes.begin(), host.homes.end(), [](uint32_t home) { return home == 0; })) host.homes.clear();
  }
  return hosted;
}

const char* ByRank(const HostedView& hosted, View* view) {
  view->generation = hosted.generation;
  view->data_key = hosted.data_key;
  view->members.clear();
  if (const char* problem = Unroll(hosted.runs, &view->members)) return problem;
  PlaceNumbered(&view->members);
  absl::flat_hash_map<int32_t, const ViewHost*> told;
  for (const ViewHost& host : hosted.hosts) {
    if (host.pids.size() != host.worker_incarnations.size() ||
        (!host.homes.empty() && host.homes.size() != host.pids.size()) ||
        !told.emplace(static_cast<int32_t>(host.number), &host).second) {
      return "a host twice, or lists of different lengths";
    }
  }
  size_t found = 0;
  for (Member& member : view->members) {
    const auto it = told.find(member.host_number);
    if (it == told.end()) continue;
    const ViewHost& host = *it->second;
    if (host.pids.size() != static_cast<size_t>(member.local_size)) return "a host with another number of ranks";
    if (member.local_rank == 0) ++found;
    member.host = host.name;
    member.agent_id = host.agent_id;
    member.pid = host.pids[member.local_rank];
    member.worker_incarnation = host.worker_incarnations[member.local_rank];
    if (!host.homes.empty()) member.home = host.homes[member.local_rank];
  }
  SettleAtHomes(&view->members);
  return found == told.size() ? nullptr : "a host without ranks";
}

void SetPositions(std::vector<Member>* members) {
  absl::flat_hash_map<absl::string_view, int32_t> numbers;  // by agent
  for (Member& member : *members) {
    member.host_number = numbers.emplace(member.agent_id, static_cast<int32_t>(numbers.size())).first->second;
  }
  PlaceNumbered(members);
  SettleAtHomes(members);
}

}  // namespace farandole
