#ifndef FARANDOLE_CONTROLLER_RECOVERY_RECOVERY_H_
#define FARANDOLE_CONTROLLER_RECOVERY_RECOVERY_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "controller/log/item_log.h"
#include "controller/recovery/gather.h"
#include "controller/replay/replay_state.h"
#include "controller/types/rank_set.h"
#include "proto/messages.h"

namespace farandole::controller::recovery {

// What a generation is about to be, put together from what its members say to a controller that was
// started again (rule C9 of docs/replay.md, steps 1, 2, 4 and 6). Pure.
class Recovery {
 public:
  explicit Recovery(Recovered found);

  const Recovered& found() const { return found_; }
  // Why the generation cannot go on; "" = it can.
  const std::string& fault() const { return fault_; }
  uint32_t phase() const { return phase_; }
  // What the members that stand at this phase do.
  replay::ReplayState::Stage stage() const { return stage_; }
  // The Replay item of the replay that runs, or that left something begun; 0 = none.
  uint64_t replay_index() const { return replay_index_; }
  const Period& period() const { return period_; }
  // Open begun instances.
  const std::vector<Begun>& begun() const { return begun_; }
  // Process sets as of the end of the log; all but 0.
  std::vector<ProcessSet> process_sets() const;
  // Those that an item removes and that are not there again: id and index.
  const std::map<uint32_t, uint64_t>& removals() const { return removals_; }
  // Items that somebody lacks, for those who do.
  log::ItemLog MakeLog(uint32_t unstable_max) const;

 private:
  // Process sets and names, which `found_` holds.
  using OpenNames = absl::flat_hash_set<std::pair<uint32_t, absl::string_view>>;

  bool Counts(const Registered& member) const { return member.present && !member.left; }
  void FindSets();
  void FindLog();
  void FindReplay();
  void FindBegun();
  bool Closed(const Begun& begun, const RankSet& members) const;
  // To whom an item goes that is sent again.
  RankSet Concerned(const Item& item, const std::vector<OpenNames>& open) const;
  // What each member has open.
  std::vector<OpenNames> FindOpen() const;

  Recovered found_;
  std::string fault_;
  uint32_t phase_ = 0;
  replay::ReplayState::Stage stage_ = replay::ReplayState::Stage::kNegotiate;
  uint64_t replay_index_ = 0;
  Period period_;
  std::vector<Begun> begun_;
  uint64_t last_ = 0;  // index
  std::vector<uint64_t> received_;
  std::map<uint64_t, std::pair<Item, RankSet>> kept_;
  RankSet all_;
  std::map<uint32_t, RankSet> sets_;  // also those that items remove
  std::map<uint32_t, bool> exists_;   // as of the end of the log
  std::map<uint32_t, uint64_t> removals_;
};

}  // namespace farandole::controller::recovery

#endif  // FARANDOLE_CONTROLLER_RECOVERY_RECOVERY_H_
