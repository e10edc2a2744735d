#ifndef FARANDOLE_CONTROLLER_MEMBERS_ELASTIC_RULES_H_
#define FARANDOLE_CONTROLLER_MEMBERS_ELASTIC_RULES_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/types/optional.h"
#include "base/clock.h"
#include "controller/members/membership.h"
#include "controller/members/roster.h"
#include "controller/types/job_status.h"
#include "proto/messages.h"

namespace farandole::controller::members {

// What an elastic job knows beyond any other: whom it waits for between two generations, who becomes a member of the
// next one with which rank, and what the members of the running one are told
// (docs/decisions/014-elastic-membership.md). Pure.
class ElasticRules {
 public:
  // A generation has begun, or was restored. `sizes.min_size` 0: it is not elastic.
  void Begun(const Elastic& sizes, int32_t size, const std::vector<Member>& members);
  // What one of its members has said of its state (Elastic::state_generation) when it came. Who has not the newest is
  // to be handed it; until the generation is over, nobody knows whether it was.
  void BegunWithState(const std::string& agent_id, int64_t pid, uint64_t state_generation);
  // It does not run any more; of several calls the first one says when, and one with `well` that all have left it: who
  // does not say otherwise has the state of this generation.
  void Over(bool well, uint64_t generation, TimePoint now);
  // This process says Hello; if it was a member, it is known from now on what it has.
  void SaysHello(const std::string& agent_id, const Hello& hello);
  // The present generation, or the last one, is elastic.
  bool elastic() const { return sizes_.min_size > 0; }

  // This process does not come back: it has ended, has given up, or has been told to leave.
  void Lost(const std::string& agent_id, int64_t pid) { may_return_.erase({agent_id, pid}); }
  void LostAgent(const std::string& agent_id);
  // Whether one of the processes behind this agent may say Hello again.
  bool Awaits(const std::string& agent_id) const;
  // Whether processes of the last generation may say Hello again.
  bool AwaitsAny() const { return !may_return_.empty(); }
  // False: nothing new.
  bool Retire(Incarnation worker);
  bool retired(Incarnation worker) const { return retired_.contains(worker); }
  // This process is to leave at the next change, unless it is needed.
  void ToLeave(const std::string& agent_id, int64_t pid);
  // It has the state, and nobody who is to stay has: it leaves only after it has handed the state to others.
  bool Needed(const std::string& agent_id, int64_t pid) const;
  void Forget(Incarnation worker) { retired_.erase(worker); }

  // Why a newcomer cannot wait beside the running generation; "" if it can.
  std::string Unlike(const Hello& hello) const;
  // Those that make up the next generation now, in the order of their ranks; empty: it does not begin yet.
  std::vector<Incarnation> Choose(const Membership& waiting, TimePoint now) const;
  // When Choose may have another answer although nothing has happened.
  TimePoint Deadline(const Membership& waiting) const;

  // How the next generation would differ from this one, but for its number; nullopt: the members know.
  absl::optional<MembershipNotice> Changes(const Membership& waiting, const Roster& roster);
  // As they were told last, but for the generation, which the caller knows.
  const MembershipNotice& told() const { return told_; }

  // For the status. `running` may be null.
  void FillWaits(const Membership& waiting, const Roster* running, TimePoint now, std::vector<Wait>* waits) const;

 private:
  std::vector<std::string> Describe(const Membership& waiting, const Roster* running, TimePoint now) const;
  std::vector<const Candidate*> InOrder(const Membership& waiting) const;
  using Process = std::pair<std::string, int64_t>;  // agent and pid
  struct Survivor {
    bool to_leave = false;
    uint64_t state = 0;  // see Elastic::state_generation
    bool said_hello = false;
  };
  // The newest that one of the last generation has.
  uint64_t NewestState() const;
  bool AllToLeave() const;
  bool GoesOn(const Membership& waiting) const;
  bool AllBack(const Membership& waiting) const;
  // Not one that is to leave and is not needed any more.
  bool MayTakePart(const Candidate& candidate) const;
  int32_t CountOf(const Membership& waiting) const;

  Elastic sizes_;
  int32_t size_ = 0;
  bool begun_ = false;  // an elastic generation has, here
  absl::optional<TimePoint> over_since_;
  // Processes of the last generation that may say Hello again, or have.
  std::map<Process, Survivor> may_return_;
  absl::flat_hash_set<Incarnation> retired_;
  MembershipNotice told_;
};

}  // namespace farandole::controller::members

#endif  // FARANDOLE_CONTROLLER_MEMBERS_ELASTIC_RULES_H_
