#include "controller/members/membership.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/rules/hosted_view.h"
#include "proto/rules/version_check.h"

namespace farandole::controller::members {
namespace {

std::string WorkerText(const Candidate& c) {
  const std::string who = c.hello.rank.known() ? absl::StrCat("rank ", c.hello.rank.value()) : "a worker";
  return absl::StrCat(who, " (pid ", c.hello.pid, " on host ", c.host, ")");
}

}  // namespace

std::string RankHeldText(const Member& holder) {
  return absl::StrCat("rank ", holder.rank.value(), " is held by a live process, pid ", holder.pid, " on host ",
                      holder.host,
                      ". A data-loader worker that was spawned runs the script's top level again and must "
                      "not call init again: put the training code under `if __name__ == \"__main__\":`");
}

std::string ElasticText(int32_t size, const Elastic& elastic) {
  if (elastic.min_size == 0) return absl::StrCat("size ", size);
  return absl::StrCat("size ", size, ", elastic from ", elastic.min_size, " to ",
                      elastic.max_size == 0 ? "any number" : absl::StrCat(elastic.max_size));
}

std::string ElasticText(const Hello& hello) { return ElasticText(hello.size, hello.elastic); }

Membership::Answer Membership::Check(const Hello& hello, const Candidate* replaced) const {
  const auto refuse = [](std::string reason) { return Answer{Admission::kRefused, std::move(reason)}; };
  const absl::Status version = CheckVersion("this worker", hello.version, "the controller");
  if (!version.ok()) return refuse(std::string(version.message()));
  if (hello.size < 1 || hello.size > size_max_) {
    return refuse(absl::StrCat("the job's size is given as ", hello.size, "; it must be from 1 to ", size_max_));
  }
  if (hello.rank.value() < -1 || hello.rank.value() >= hello.size) {
    return refuse(absl::StrCat("rank ", hello.rank.value(), " is out of range for a job of size ", hello.size));
  }
  const bool alone = candidates_.empty() || (candidates_.size() == 1 && replaced != nullptr);
  const Elastic& elastic = hello.elastic;
  if (elastic.min_size < 0 || elastic.max_size < 0 || (elastic.max_size > 0 && elastic.max_size < elastic.min_size)) {
    return refuse(absl::StrCat("the job's size is given as ", ElasticText(hello), "; that cannot be"));
  }
  if (!alone) {
    const Candidate& other = &candidates_.front() == replaced ? candidates_[1] : candidates_.front();
    const Elastic& others = other.hello.elastic;
    const bool like = elastic.min_size == others.min_size && elastic.max_size == others.max_size;
    if (hello.size != size() && like) {
      return refuse(absl::StrCat("this worker was told that the job has size ", hello.size, ", ", WorkerText(other),
                                 " says ", other.hello.size, "; compare how they were started"));
    }
    if (!like) {
      return refuse(absl::StrCat("this worker was told that the job has ", ElasticText(hello), ", ", WorkerText(other),
                                 " says ", ElasticText(other.hello), "; compare how they were started"));
    }
  }
  const std::string problem = RankProblem(hello, replaced);
  return problem.empty() ? Answer() : refuse(problem);
}

std::string Membership::RankProblem(const Hello& hello, const Candidate* replaced) const {
  if (hello.elastic.min_size > 0) {
    if (hello.rank.known())
      return "this worker has a rank already, but an elastic job gives ranks itself; start it with `farandole run "
             "--min-np`";
    if (replaced != nullptr || static_cast<int32_t>(candidates_.size()) < size_max_) return "";
    return absl::StrCat(candidates_.size(), " processes wait to join already, the most that may");
  }
  if (hello.rank.known()) {
    const auto held = by_rank_.find(hello.rank.value());
    const Candidate* holder = held == by_rank_.end() ? nullptr : Find(held->second);
    if (holder != nullptr && holder != replaced) {
      Member member;
      member.rank = hello.rank;
      member.pid = holder->hello.pid;
      member.host = holder->host;
      return RankHeldText(member);
    }
  }
  if (replaced != nullptr || static_cast<int32_t>(candidates_.size()) < hello.size) return "";
  return absl::StrCat("all ", hello.size, " ranks are taken; the last to come was ", WorkerText(candidates_.back()));
}

Membership::Answer Membership::Join(const Hello& hello, const std::string& agent_id, const std::string& host,
                                    TimePoint now) {
  const Candidate* replaced = Find(hello.worker_incarnation);
  if (replaced != nullptr && hello.session <= replaced->hello.session) return {Admission::kIgnored, ""};
  if (replaced == nullptr) {
    const auto same = by_process_.find({hello.pid, agent_id});
    if (same != by_process_.end()) replaced = Find(same->second);
  }
  Answer answer = Check(hello, replaced);
  if (answer.admission != Admission::kAdmitted) return answer;
  const TimePoint since = replaced == nullptr ? now : replaced->since;
  if (replaced != nullptr) Remove(replaced - candidates_.data());
  by_incarnation_[hello.worker_incarnation] = candidates_.size();
  by_process_[{hello.pid, agent_id}] = hello.worker_incarnation;
  by_agent_[agent_id].push_back(hello.worker_incarnation);
  if (hello.rank.known()) {
    by_rank_[hello.rank.value()] = hello.worker_incarnation;
    asked_for_.Add(hello.rank);
  }
  candidates_.push_back({hello, agent_id, host, true, since});
  if (hello.generation.number == 0) {
    // Of no use without a generation, and as large as a message may be.
    Hello& kept = candidates_.back().hello;
    kept.open_requests = std::vector<Request>();
    kept.begun = std::vector<uint64_t>();
    kept.retained = std::vector<uint64_t>();
    kept.taking_back = std::vector<RequestName>();
  }
  return answer;
}

const Candidate* Membership::Find(Incarnation worker) const {
  const auto it = by_incarnation_.find(worker);
  return it == by_incarnation_.end() ? nullptr : &candidates_[it->second];
}

void Membership::Remove(size_t position) {
  const Hello& hello = candidates_[position].hello;
  if (hello.rank.known()) {
    by_rank_.erase(hello.rank.value());
    asked_for_.Remove(hello.rank);
  }
  const auto agent = by_agent_.find(candidates_[position].agent_id);
  agent->second.erase(std::find(agent->second.begin(), agent->second.end(), hello.worker_incarnation));
  if (agent->second.empty()) by_agent_.erase(agent);
  by_incarnation_.erase(hello.worker_incarnation);
  by_process_.erase({hello.pid, candidates_[position].agent_id});
  candidates_.erase(candidates_.begin() + position);
  for (size_t i = position; i < candidates_.size(); ++i) by_incarnation_[candidates_[i].hello.worker_incarnation] = i;
}

void Membership::Drop(Incarnation worker) {
  const auto it = by_incarnation_.find(worker);
  if (it != by_incarnation_.end()) Remove(it->second);
}

void Membership::CloseSessions(const std::string& agent_id) {
  const auto agent = by_agent_.find(agent_id);
  if (agent == by_agent_.end()) return;
  for (Incarnation worker : agent->second) candidates_[by_incarnation_[worker]].session_open = false;
}

void Membership::DropAgent(const std::string& agent_id) {
  while (HasAgent(agent_id)) Drop(by_agent_[agent_id].back());
}

std::vector<Rank> Membership::Missing(int max) const {
  return asked_for_.Absent(size(), static_cast<int64_t>(candidates_.size() - by_rank_.size()), max);
}

std::vector<Candidate> Membership::Take() {
  int32_t free_rank = 0;
  for (Candidate& c : candidates_) {
    if (c.hello.rank.known()) continue;
    while (by_rank_.contains(free_rank)) ++free_rank;
    c.hello.rank = Rank(free_rank++);
  }
  std::vector<Candidate> taken;
  taken.swap(candidates_);
  Clear();
  std::sort(taken.begin(), taken.end(),
            [](const Candidate& a, const Candidate& b) { return a.hello.rank < b.hello.rank; });
  return taken;
}

std::vector<Candidate> Membership::Take(const std::vector<Incarnation>& chosen) {
  std::vector<Candidate> taken;
  for (Incarnation worker : chosen) {
    taken.push_back(*Find(worker));
    taken.back().hello.rank = Rank(static_cast<int32_t>(taken.size()) - 1);
  }
  if (taken.size() == candidates_.size()) {
    Clear();
  } else {
    for (Incarnation worker : chosen) Drop(worker);
  }
  return taken;
}

void Membership::Clear() {
  candidates_.clear();
  by_incarnation_.clear();
  by_rank_.clear();
  by_process_.clear();
  by_agent_.clear();
  asked_for_.Clear();
}

std::vector<Member> ToMembers(const std::vector<Candidate>& candidates) {
  // A newcomer's home is a wish, which gives way to the home of one that has been a member, whatever their ranks.
  absl::flat_hash_set<std::pair<absl::string_view, uint32_t>> homes;
  for (const Candidate& c : candidates) {
    if (c.has_been_member()) homes.emplace(c.agent_id, c.hello.elastic.home);
  }
  std::vector<Member> members;
  members.reserve(candidates.size());
  for (const Candidate& c : candidates) {
    Member m;
    m.rank = c.hello.rank;
    m.host = c.host;
    m.pid = c.hello.pid;
    m.agent_id = c.agent_id;
    m.worker_incarnation = c.hello.worker_incarnation;
    m.home = c.hello.elastic.home;
    if (!c.has_been_member() && homes.contains({c.agent_id, m.home})) m.home = 0;
    members.push_back(std::move(m));
  }
  SetPositions(&members);
  return members;
}

}  // namespace farandole::controller::members
