#include "controller/members/roster.h"

#include <algorithm>
#include <utility>

#include "controller/types/rank_text.h"

namespace farandole::controller::members {

Roster::Roster(const std::vector<Candidate>& members_by_rank) : Roster(ToMembers(members_by_rank)) {
  for (size_t i = 0; i < members_by_rank.size(); ++i) {
    seats_[i].session = members_by_rank[i].hello.session;
    seats_[i].session_open = members_by_rank[i].session_open;
  }
}

Roster::Roster(std::vector<Member> members) {
  seats_.resize(members.size());
  for (size_t i = 0; i < members.size(); ++i) {
    Seat& seat = seats_[i];
    by_incarnation_[members[i].worker_incarnation] = members[i].rank;
    by_agent_[members[i].agent_id].push_back(members[i].rank);
    seat.agent_id = members[i].agent_id;
    seat.member = std::move(members[i]);
  }
}

std::vector<Member> Roster::members() const {
  std::vector<Member> members;
  members.reserve(seats_.size());
  for (const Seat& seat : seats_) members.push_back(seat.member);
  return members;
}

absl::optional<Rank> Roster::Find(Incarnation worker) const {
  const auto it = by_incarnation_.find(worker);
  if (it == by_incarnation_.end()) return absl::nullopt;
  return it->second;
}

absl::optional<Rank> Roster::FindProcess(const std::string& agent_id, int64_t pid) const {
  for (Rank rank : Behind(agent_id)) {
    if (seat(rank).member.pid == pid) return rank;
  }
  return absl::nullopt;
}

std::vector<Rank> Roster::Behind(const std::string& agent_id) const {
  std::vector<Rank> ranks;
  const auto agent = by_agent_.find(agent_id);
  if (agent == by_agent_.end()) return ranks;
  for (Rank rank : agent->second) {
    if (!seat(rank).gone()) ranks.push_back(rank);
  }
  return ranks;
}

RankSet Roster::Heard() const {
  RankSet heard;
  for (const Seat& seat : seats_) {
    if (seat.session_open && seat.responsive && !seat.left && !seat.over) heard.Add(seat.member.rank);
  }
  return heard;
}

RankSet Roster::Silent() const {
  RankSet silent;
  for (const Seat& seat : seats_) {
    if (!seat.gone() && (!seat.responsive || !seat.session_open)) silent.Add(seat.member.rank);
  }
  return silent;
}

std::string Roster::NameOf(const std::vector<Rank>& ranks_rising) const {
  return ranks_rising.size() == 1 ? Describe(seat(ranks_rising[0]).member) : RankText(ranks_rising);
}

bool Roster::AllGone() const {
  return std::all_of(seats_.begin(), seats_.end(), [](const Seat& seat) { return seat.gone(); });
}

void Roster::OpenSession(Rank rank, uint64_t session, const std::string& agent_id) {
  Seat& seat = mutable_seat(rank);
  seat.session = session;
  seat.session_open = true;
  if (seat.agent_id != agent_id) {
    const auto before = by_agent_.find(seat.agent_id);
    before->second.erase(std::find(before->second.begin(), before->second.end(), rank));
    if (before->second.empty()) by_agent_.erase(before);
    std::vector<Rank>& behind = by_agent_[agent_id];
    behind.insert(std::lower_bound(behind.begin(), behind.end(), rank), rank);
    seat.agent_id = agent_id;
  }
  routes_ = nullptr;
}

void Roster::CloseSessions(const std::string& agent_id, TimePoint now) {
  const auto agent = by_agent_.find(agent_id);
  if (agent == by_agent_.end()) return;
  for (Rank rank : agent->second) {
    Seat& seat = mutable_seat(rank);
    if (seat.session_open && seat.responsive) seat.silent_since = now;
    seat.session_open = false;
    if (seat.gone()) continue;
    seat.responsive = true;
    seat.unresponsive_cause.clear();
  }
  routes_ = nullptr;
}

void Roster::CloseSession(Rank rank) {
  mutable_seat(rank).session_open = false;
  routes_ = nullptr;
}

void Roster::MarkLeft(Rank rank) {
  mutable_seat(rank).left = true;
  left_.Add(rank);
  routes_ = nullptr;
}

void Roster::LetGo(Rank rank) {
  mutable_seat(rank).let_go = true;
  ++let_go_;
}

void Roster::BuildRoutes() {
  std::vector<Route> routes;
  absl::flat_hash_map<std::string, size_t> index;
  for (const Seat& seat : seats_) {
    if (!seat.session_open || seat.left) continue;
    const auto it = index.emplace(seat.agent_id, routes.size()).first;
    if (it->second == routes.size()) routes.push_back({seat.agent_id, {}});
    routes[it->second].workers.push_back(seat.member.worker_incarnation);
  }
  routes_ = std::make_shared<const std::vector<Route>>(std::move(routes));
}

void Roster::ToAll(WorkerDown message, Actions* actions) {
  if (routes_ == nullptr) BuildRoutes();
  actions->To(routes_, std::move(message));
}

void Roster::ToSome(const RankSet& ranks, WorkerDown message, Actions* actions) const {
  std::vector<Route> routes;
  absl::flat_hash_map<std::string, size_t> index;
  for (Rank rank : ranks.ToVector()) {
    const Seat& s = seat(rank);
    if (!s.session_open) continue;
    const auto it = index.emplace(s.agent_id, routes.size()).first;
    if (it->second == routes.size()) routes.push_back({s.agent_id, {}});
    routes[it->second].workers.push_back(s.member.worker_incarnation);
  }
  actions->To(std::make_shared<const std::vector<Route>>(std::move(routes)), std::move(message));
}

void Roster::ToOne(Rank rank, WorkerDown message, Actions* actions) const {
  const Seat& s = seat(rank);
  if (s.session_open) actions->ToWorker(s.agent_id, s.member.worker_incarnation, std::move(message));
}

}  // namespace farandole::controller::members
