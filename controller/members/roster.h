#ifndef FARANDOLE_CONTROLLER_MEMBERS_ROSTER_H_
#define FARANDOLE_CONTROLLER_MEMBERS_ROSTER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/optional.h"
#include "controller/members/membership.h"
#include "controller/types/actions.h"
#include "controller/types/rank_set.h"
#include "proto/messages.h"

namespace farandole::controller::members {

// What is known about one member.
struct Seat {
  Member member;         // as all members were told in the view
  std::string agent_id;  // through which it speaks now: an agent may be started again
  uint64_t session = 0;
  bool session_open = false;
  // It has called shutdown() and takes part in nothing new.
  bool left = false;
  // It has also executed all that concerns it: the others do not need it any more. Its process may live on, and may be
  // a candidate for the next generation.
  bool let_go = false;
  // It is known not to take part any more although it did not leave: ended, given up, or told that it was removed.
  bool over = false;
  // From its pidfd; "" while the process is not known to have ended.
  std::string ended_cause;
  bool responsive = true;
  std::string unresponsive_cause;
  // It does not respond, or has no open session, since then.
  TimePoint silent_since;
  uint64_t completed_through = 0;

  bool gone() const { return let_go || over; }
};

// The members of one generation and the way to each. Pure. A message to all goes once per agent.
class Roster {
 public:
  explicit Roster(const std::vector<Candidate>& members_by_rank);
  // Of a view; nobody has a session yet.
  explicit Roster(std::vector<Member> members);

  int size() const { return static_cast<int>(seats_.size()); }
  const Seat& seat(Rank rank) const { return seats_[rank.value()]; }
  // For everything but session_open, left and let_go, which have the methods below.
  Seat& mutable_seat(Rank rank) { return seats_[rank.value()]; }
  std::vector<Member> members() const;

  absl::optional<Rank> Find(Incarnation worker) const;
  // The member in this process, if it is not gone.
  absl::optional<Rank> FindProcess(const std::string& agent_id, int64_t pid) const;
  // Members behind this agent that are not gone.
  std::vector<Rank> Behind(const std::string& agent_id) const;
  int left_count() const { return left_.count(); }
  std::vector<Rank> left() const { return left_.ToVector(); }
  // "rank 2 (pid 4711 on host b)"; of several "ranks 2 and 5".
  std::string NameOf(const std::vector<Rank>& ranks_rising) const;
  bool AllGone() const;
  // Members that take part, answer, and have an open session.
  RankSet Heard() const;
  // Members that are not gone and do not answer, or are out of reach.
  RankSet Silent() const;

  void OpenSession(Rank rank, uint64_t session, const std::string& agent_id);
  // The agent's stream is lost, or a newer one: what was said through it is void, also who does not respond.
  void CloseSessions(const std::string& agent_id, TimePoint now);
  void CloseSession(Rank rank);
  void MarkLeft(Rank rank);
  // After MarkLeft.
  void LetGo(Rank rank);
  bool all_let_go() const { return let_go_ == size(); }

  // To every member that has an open session and has not left.
  void ToAll(WorkerDown message, Actions* actions);
  // To these members, as far as they have an open session.
  void ToSome(const RankSet& ranks, WorkerDown message, Actions* actions) const;
  void ToOne(Rank rank, WorkerDown message, Actions* actions) const;

 private:
  void BuildRoutes();

  std::vector<Seat> seats_;
  absl::flat_hash_map<Incarnation, Rank> by_incarnation_;
  absl::flat_hash_map<std::string, std::vector<Rank>> by_agent_;  // each in rising order
  RankSet left_;
  int let_go_ = 0;
  Routes routes_;  // null: to be built again
};

}  // namespace farandole::controller::members

#endif  // FARANDOLE_CONTROLLER_MEMBERS_ROSTER_H_
