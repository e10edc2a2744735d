#ifndef FARANDOLE_CONTROLLER_MEMBERS_MEMBERSHIP_H_
#define FARANDOLE_CONTROLLER_MEMBERS_MEMBERSHIP_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/clock.h"
#include "controller/types/rank_set.h"
#include "proto/messages.h"

namespace farandole::controller::members {

// A worker that wants to be a member of the next generation.
struct Candidate {
  Hello hello;
  std::string agent_id;
  std::string host;
  // False while its agent's stream is gone: it says Hello again.
  bool session_open = true;
  TimePoint since;

  // Of an elastic job: in an earlier generation.
  bool has_been_member() const { return hello.elastic.previous_generation != 0; }
};

// Why a rank that somebody alive holds is not given to another process.
std::string RankHeldText(const Member& holder);

// "size 4, elastic from 2 to 8": as workers were told.
std::string ElasticText(int32_t size, const Elastic& elastic);
std::string ElasticText(const Hello& hello);

// Who waits to become a member, and who may. Pure. One more costs the same whether a few wait or ten thousand. The
// first candidate says how large the job is.
class Membership {
 public:
  explicit Membership(int32_t size_max) : size_max_(size_max) {}

  enum class Admission { kAdmitted, kIgnored, kRefused };
  struct Answer {
    Admission admission = Admission::kAdmitted;
    std::string reason;  // of a refusal: one sentence
  };
  // Admits, or refuses: version, sizes or rank out of range, sizes unlike those of the others, rank held by another
  // candidate, no rank free. An elastic job hands out its ranks itself, and has room for everybody here. A newer
  // session takes the place of the older one, an older one is ignored. A candidate with the same agent and pid is the
  // same process trying again; the new one takes its place.
  Answer Join(const Hello& hello, const std::string& agent_id, const std::string& host, TimePoint now);

  const Candidate* Find(Incarnation worker) const;
  // As if all had come only now.
  void ArriveAt(TimePoint now) {
    for (Candidate& candidate : candidates_) candidate.since = now;
  }
  // Forgets a candidate that ended; no-op if there is none.
  void Drop(Incarnation worker);
  // The stream of this agent is gone or new: its candidates have to say Hello again.
  void CloseSessions(const std::string& agent_id);
  // The agent is given up, its candidates with it.
  void DropAgent(const std::string& agent_id);

  // 0 = nobody has said.
  int32_t size() const { return candidates_.empty() ? 0 : candidates_.front().hello.size; }
  bool Complete() const { return !candidates_.empty() && static_cast<int32_t>(candidates_.size()) == size(); }
  // The first `max` ranks that nobody has come for, ascending; a candidate that left the choice to us takes a free one.
  std::vector<Rank> Missing(int max) const;
  // Whether somebody has come for this rank.
  bool Waits(Rank rank) const { return by_rank_.contains(rank.value()); }
  bool HasProcess(const std::string& agent_id, int64_t pid) const { return by_process_.contains({pid, agent_id}); }
  bool elastic() const { return !candidates_.empty() && candidates_.front().hello.elastic.min_size > 0; }
  bool HasAgent(const std::string& agent_id) const { return by_agent_.contains(agent_id); }
  const std::vector<Candidate>& candidates() const { return candidates_; }

  // Complete() only. Hands out all candidates, ordered by rank; those that left the choice to us got the free ranks, in
  // the order in which they came.
  std::vector<Candidate> Take();
  // These alone, with the ranks 0, 1, ...; the others go on waiting.
  std::vector<Candidate> Take(const std::vector<Incarnation>& chosen);

 private:
  Answer Check(const Hello& hello, const Candidate* replaced) const;
  std::string RankProblem(const Hello& hello, const Candidate* replaced) const;
  void Clear();
  void Remove(size_t position);

  int32_t size_max_;
  std::vector<Candidate> candidates_;  // in order of arrival
  absl::flat_hash_map<Incarnation, size_t> by_incarnation_;
  absl::flat_hash_map<int32_t, Incarnation> by_rank_;                             // ranks asked for
  absl::flat_hash_map<std::pair<int64_t, std::string>, Incarnation> by_process_;  // (pid, agent)
  absl::flat_hash_map<std::string, std::vector<Incarnation>> by_agent_;
  RankSet asked_for_;
};

// The members of a view, with their local and cross ranks. `candidates` as from Take().
std::vector<Member> ToMembers(const std::vector<Candidate>& candidates);

}  // namespace farandole::controller::members

#endif  // FARANDOLE_CONTROLLER_MEMBERS_MEMBERSHIP_H_
