#ifndef FARANDOLE_CONTROLLER_REPLAY_BEGUN_LIST_H_
#define FARANDOLE_CONTROLLER_REPLAY_BEGUN_LIST_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/optional.h"
#include "controller/replay/replay_state.h"
#include "controller/types/rank_set.h"
#include "proto/messages.h"

namespace farandole::controller::replay {

// Instances of the last replay that some but not all members of their set have started, until the others enter them or
// they are withdrawn (rules C2 and C3 of docs/replay.md). What those others announce of them is noted here, not in the
// table. Pure.
class BegunList {
 public:
  // All members have halted, and these are what only some had started (rule C6). `period` is that of the replay,
  // `begun` in its order.
  void Open(uint64_t replay_index, const Period& period, const std::vector<Begun>& begun, const MembersOf& members_of);

  bool empty() const { return instances_.empty(); }
  // True if one of them (nullptr: of all) has started an open instance: nothing else may be dispatched to it.
  bool Busy(const RankSet* members) const;

  enum class Heard { kOther, kTaken, kChanged };
  // kOther: belongs to no open instance. kChanged: to one, see Find(), but with another signature, so that it cannot
  // take place.
  Heard Announce(Rank rank, const Request& request);
  // What it announced is void.
  void Forget(Rank rank);
  // Answers those that cannot take place, because a joined member has no zeros for them. By seq, as below.
  std::vector<uint64_t> Joined(Rank rank);
  // Its join() has ended: it adds no zeros any more, and only what it announces counts.
  void NotJoined(Rank rank);
  // Those that cannot take place without this member, who starts nothing any more.
  std::vector<uint64_t> LackedBy(Rank rank) const;

  // Closes the first instance that may be entered now, and says to whom; nullopt if there is none.
  struct Entering {
    Enter item;
    RankSet members;
  };
  absl::optional<Entering> TakeEnter();
  // Closes the open instances of this set that are not kept; there may be none. `announced` is what was noted of them,
  // in the order in which it came. Who had started one announces its requests, too, once it has taken them back.
  struct Withdrawing {
    Withdraw item;
    RankSet members;
    std::vector<std::pair<Rank, Request>> announced;
    std::vector<std::pair<std::string, RankSet>> started;  // by name
  };
  Withdrawing TakeWithdraw(uint32_t process_set, std::string reason);

  // True if it has announced something that belongs to an open instance.
  bool HasAnnounced(Rank rank) const;
  struct Instance {
    uint64_t seq = 0;
    uint32_t process_set = 0;
    std::vector<Request> requests;
    RankSet members;
    RankSet started;
    bool final = false;
    // Started, announced all of it, or joined.
    RankSet covered;
    std::vector<RankSet> heard;                      // by request: who announced it
    std::vector<std::pair<Rank, size_t>> announced;  // the same in order of arrival
    absl::flat_hash_map<Rank, size_t> count;         // by rank
  };
  const std::vector<Instance>& instances() const { return instances_; }
  // The one that this belongs to: it has the name, and waits for this member. Nullptr: none.
  const Instance* Find(Rank rank, const Request& request) const;
  const Instance* Find(uint64_t seq) const;
  // For each open instance the final one for which it is kept, that is, not withdrawn: itself, or a later one that a
  // member of its set has started and that is kept. Withdrawn it would come after that one, which others may reach only
  // after it. Nullptr: it can be withdrawn.
  std::vector<const Instance*> KeptFor() const;

 private:
  bool HeldBack(const Instance& instance) const;

  uint64_t replay_index_ = 0;
  std::vector<Instance> instances_;  // by seq
};

}  // namespace farandole::controller::replay

#endif  // FARANDOLE_CONTROLLER_REPLAY_BEGUN_LIST_H_
