#ifndef FARANDOLE_CONTROLLER_LOG_ITEM_LOG_H_
#define FARANDOLE_CONTROLLER_LOG_ITEM_LOG_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "controller/types/rank_set.h"
#include "proto/messages.h"

namespace farandole::controller::log {

// The ordered log of one generation: items 1, 2, 3, ... with the members they concern, kept until all of these have
// received them, for those who ask again (rules C8 and C11 of docs/replay.md). Pure. A report costs O(1), amortised
// over the items.
class ItemLog {
 public:
  ItemLog(GenerationId generation, int members, uint32_t unstable_max);
  // As a restarted controller finds it: ends with `last`, `received` says what each member has, `kept` are the items
  // that some of those named there lack.
  ItemLog(GenerationId generation, uint32_t unstable_max, uint64_t last,
          std::map<uint64_t, std::pair<Item, RankSet>> kept, const std::vector<uint64_t>& received);

  // False when so many items are not stable that no further one may be appended (rule C11). Forgets what is stable by
  // now before it says so: who lacks nothing does not report anything.
  bool MakeRoom() {
    if (last_ - stable_ >= unstable_max_) Advance();
    return last_ - stable_ < unstable_max_;
  }
  // Gives the body the next index. `to` = nullptr: concerns all members. The reference holds until the next call.
  const Item& Append(uint32_t phase, ItemBody body, const RankSet* to);

  // `rank` has received everything that concerns it up to `through`. False if no such item exists: a fault of ours.
  bool Received(Rank rank, uint64_t through);
  uint64_t received_through(Rank rank) const { return received_[rank.value()].through; }
  // `rank` leaves: items to all do not concern it from now on.
  void Part(Rank rank) { received_[rank.value()].to_all_through = last_to_all_; }
  // `rank` does not count any more: it has left.
  void Release(Rank rank);
  // The last item that concerns it, as far as it is known; 0 = none.
  uint64_t LastFor(Rank rank) const {
    const Progress& p = received_[rank.value()];
    return std::max(p.through, LastSent(p));
  }
  // Everybody has said that it has received the last Resume or Withdraw and what came before, as far as that concerns
  // it. Who lacks a later item only may be taken to lack it until it says more.
  bool ReplayEndKnown();
  uint64_t replay_end() const { return replay_end_; }
  // Set once after each rise by at least the step, unless no member that stays has anything of it: everything up to
  // here is dropped.
  absl::optional<uint64_t> TakeStable();

  // Whether `rank`, which this item concerns, has not said that it has received it.
  bool Lacks(Rank rank, uint64_t index) const;
  // Calls `fn` for the kept items above `through` that concern `rank`, in order. False, without a call, if some that
  // may concern it are no longer kept.
  bool ForEachAbove(Rank rank, uint64_t through, const std::function<void(const Item&)>& fn) const;

  const GenerationId& generation() const { return generation_; }
  uint64_t last() const { return last_; }
  uint64_t stable() const { return stable_; }
  // A member that has received least of all; the one to name when the log is full.
  Rank laggard() const { return Rank(laggard_); }

 private:
  struct Kept {
    Item item;
    absl::optional<RankSet> to;
  };
  struct Progress {
    uint64_t through = 0;    // as reported
    uint64_t sent = 0;       // greatest index that concerns this member but not all
    uint64_t effective = 0;  // it lacks nothing up to here; runs ahead of `through` over items that do not concern it
    bool released = false;
    uint64_t to_all_through = UINT64_MAX;  // items to all above this one do not concern it
  };
  void Note(const Item& item);
  uint64_t LastSent(const Progress& p) const { return std::max(p.sent, std::min(last_to_all_, p.to_all_through)); }
  uint64_t Effective(int rank);
  void Advance();

  GenerationId generation_;
  uint64_t unstable_max_;
  uint64_t step_;          // Stable is computed and said in steps of so many items
  std::deque<Kept> kept_;  // items stable_+1 .. last_
  std::vector<Progress> received_;
  uint64_t last_ = 0;
  uint64_t last_to_all_ = 0;
  uint64_t stable_ = 0;
  bool stable_risen_ = false;
  uint64_t replay_end_ = 0;   // index of the last Resume or Withdraw
  int replay_end_known_ = 0;  // by all members before this one
  // All members before this one, in cyclic order from the last rise on, have received stable_ + step_.
  int laggard_ = 0;
  int passed_ = 0;
};

}  // namespace farandole::controller::log

#endif  // FARANDOLE_CONTROLLER_LOG_ITEM_LOG_H_
