#ifndef FARANDOLE_CONTROLLER_RECOVERY_RECOVERY_H_
#define FARANDOLE_CONTROLLER_RECOVERY_RECOVERY_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "controller/log/answered.h"
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
  // What members announce again once they have received a Withdraw, which they have not yet.
  struct Owed {
    uint32_t process_set;
    std::vector<std::string> names;
    RankSet ranks;
  };
  const std::vector<Owed>& owed() const { return owed_; }
  // Process sets as of the end of the log; all but 0.
  std::vector<ProcessSet> process_sets() const;
  // Those that an item removes and that are not there again: id and index.
  const std::map<uint32_t, uint64_t>& removals() const { return removals_; }
  // Items that somebody lacks, for those who do.
  log::ItemLog MakeLog(uint32_t unstable_max) const;

 private:
  // What a member has open, by process set and name, and what of it items answer that it lacks, up to `through`.
  struct Open {
    absl::flat_hash_map<std::pair<uint32_t, absl::string_view>, const Request*> requests;  // of `found_`
    log::Answered answered;
    uint64_t through;
  };

  bool Counts(const Registered& member) const { return member.present && !member.left; }
  void FindSets();
  void FindLog();
  void FindReplay();
  void FindBegun();
  void FindOwed(const Resume& resume);
  // An instance of the last replay.
  bool Withdraws(const ItemBody& body, uint64_t seq) const;
  bool Closed(const Begun& begun, const RankSet& members) const;
  // To whom an item goes that is sent again; `kept_` has those before it.
  RankSet Concerned(const Item& item, std::vector<Open>* open) const;
  bool Answers(const ErrorItem& error, uint64_t index, Rank rank, Open* open) const;
  // Of each member.
  std::vector<Open> FindOpen() const;

  Recovered found_;
  std::string fault_;
  uint32_t phase_ = 0;
  replay::ReplayState::Stage stage_ = replay::ReplayState::Stage::kNegotiate;
  uint64_t replay_index_ = 0;
  Period period_;
  std::vector<Begun> begun_;
  std::vector<Owed> owed_;
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
