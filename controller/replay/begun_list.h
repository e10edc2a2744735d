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
// they are withdrawn (rules C2 and C3 of docs/replay.md). What those others announce of them is kept here, not in the
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
  // kOther: belongs to no open instance. kChanged: to one, but with another signature, so the instances of its set have
  // to be withdrawn.
  Heard Announce(Rank rank, const Request& request);
  // What it announced is void.
  void Forget(Rank rank);
  // Answers the process sets whose instances have to be withdrawn, because a joined member has no zeros for them.
  std::vector<uint32_t> Joined(Rank rank);
  // The process sets whose instances cannot take place without this member, who starts nothing any more.
  std::vector<uint32_t> LackedBy(Rank rank) const;

  // Closes the first instance that may be entered now, and says to whom; nullopt if there is none.
  struct Entering {
    Enter item;
    RankSet members;
  };
  absl::optional<Entering> TakeEnter();
  // Closes all open instances of this set, of which there are some. `announced` is what was kept of them, in the order
  // in which it came.
  struct Withdrawing {
    Withdraw item;
    RankSet members;
    std::vector<std::pair<Rank, Request>> announced;
  };
  Withdrawing TakeWithdraw(uint32_t process_set, std::string reason);

  // Rising.
  std::vector<uint32_t> OpenSets() const;
  // Whom the open instances of this set wait for.
  std::vector<Rank> Lacking(uint32_t process_set) const;
  // True if it has announced something that belongs to an open instance.
  bool HasAnnounced(Rank rank) const;
  struct Instance {
    uint64_t seq = 0;
    uint32_t process_set = 0;
    std::vector<Request> requests;
    RankSet members;
    RankSet started;
    // Started, announced all of it, or joined.
    RankSet covered;
    std::vector<RankSet> heard;                      // by request: who announced it
    std::vector<std::pair<Rank, size_t>> announced;  // the same in order of arrival
    absl::flat_hash_map<Rank, size_t> count;         // by rank
  };
  const std::vector<Instance>& instances() const { return instances_; }

 private:
  bool HeldBack(const Instance& instance) const;

  uint64_t replay_index_ = 0;
  std::vector<Instance> instances_;  // by seq
};

}  // namespace farandole::controller::replay

#endif  // FARANDOLE_CONTROLLER_REPLAY_BEGUN_LIST_H_
