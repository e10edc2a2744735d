#ifndef FARANDOLE_CONTROLLER_READY_PROCESS_SETS_H_
#define FARANDOLE_CONTROLLER_READY_PROCESS_SETS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "controller/types/rank_set.h"
#include "proto/types.h"

namespace farandole::controller::ready {

// The members of one process set; does not change.
class SetMembers {
 public:
  SetMembers(uint32_t id, std::vector<Rank> ranks_rising);

  uint32_t id() const { return id_; }
  const std::vector<Rank>& ranks() const { return ranks_; }
  const RankSet& set() const { return set_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  bool Contains(Rank rank) const { return set_.Contains(rank); }
  // Where a member stands among the others; constant time in process set 0.
  int PositionOf(Rank rank) const;

 private:
  const uint32_t id_;
  const std::vector<Rank> ranks_;
  RankSet set_;
};

// The process sets of one generation, by id. Pure. 0 has all ranks and stays; the others come and go, all ranks agree
// about both by the order of the log. An id is taken again only when every rank has received the removal of its last
// bearer: until then an announcement under it may mean that one.
class ProcessSets {
 public:
  // Far above what a script has; a bound on what it can make a controller hold.
  static constexpr size_t kSetsMax = 4096;

  // Ranks 0 .. size-1.
  explicit ProcessSets(int size);

  // nullptr: there is none. Valid until it is removed.
  const SetMembers* Find(uint32_t id) const;
  // The one that these ranks make up; nullptr if there is none.
  const SetMembers* FindRanks(const std::vector<Rank>& ranks_rising) const;
  // Takes the least id that may be taken; nullptr: there are kSetsMax already.
  const SetMembers* Add(std::vector<Rank> ranks_rising);
  // Not 0. Its id is free when the removal has its index in the log and all have received that.
  void Remove(uint32_t id);
  // Removals so far have their indices, none behind item `last`. Answers those of which that is news.
  std::vector<uint32_t> RemovalsSent(uint64_t last);
  // All ranks have received all items up to here.
  void Stable(uint64_t through);
  // As a restarted controller learns it from the members: this set exists, or was removed by item `index`.
  void Restore(const ProcessSet& set);
  void RestoreRemoval(uint32_t id, uint64_t index);

  // All but 0, by id.
  std::vector<ProcessSet> List() const;
  // By id; 0 is the first.
  const std::map<uint32_t, std::unique_ptr<SetMembers>>& all() const { return sets_; }

 private:
  std::map<uint32_t, std::unique_ptr<SetMembers>> sets_;
  // Ids that nobody bears and nobody may take, with the index of the removal; 0 = it has none yet.
  std::map<uint32_t, uint64_t> leaving_;
};

}  // namespace farandole::controller::ready

#endif  // FARANDOLE_CONTROLLER_READY_PROCESS_SETS_H_
