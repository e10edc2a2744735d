#ifndef FARANDOLE_CONTROLLER_REPLAY_REPLAY_STATE_H_
#define FARANDOLE_CONTROLLER_REPLAY_REPLAY_STATE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "base/clock.h"
#include "controller/types/rank_set.h"
#include "proto/messages.h"

namespace farandole::controller::replay {

// Members of a process set; null if there is none of that number.
using MembersOf = std::function<const RankSet*(uint32_t process_set)>;

// Which phase a generation is in, and where its members stand when a replay ends (rules C5 to C7 of docs/replay.md).
// Pure.
//
//   kNegotiate --Begin--> kReplay --Halt--> kHalting --all have halted, Resume--> kNegotiate
class ReplayState {
 public:
  enum class Stage : uint8_t { kNegotiate, kReplay, kHalting };

  // More instances of one set than any worker may have started and not completed (W).
  static constexpr size_t kBegunPerSetMax = 64;

  explicit ReplayState(int members) : next_(members, 0) {}

  Stage stage() const { return stage_; }
  uint32_t phase() const { return phase_; }
  // Of the replay that runs or ended last.
  uint64_t index() const { return index_; }
  const Period& period() const { return period_; }

  // The item `index` is Replay: the phase rises, the replay runs.
  void Begin(uint64_t index, Period period);
  // As a restarted controller finds it: a phase, and the replay that runs or left something begun, if there is one.
  void Restore(uint32_t phase, uint64_t index, Period period, TimePoint now);
  // Everybody is told to halt (rule C5).
  void Halt(TimePoint now);
  // A member has halted there; counts once.
  void Halted(Rank rank, uint64_t next);
  bool halted(Rank rank) const { return halted_.Contains(rank); }
  bool all_halted() const { return stage_ == Stage::kHalting && halted_.count() == static_cast<int>(next_.size()); }
  // The first `max` of those who have not.
  std::vector<Rank> Awaited(size_t max) const;
  // Of the last halt; not before this controller knows of it.
  TimePoint halting_since() const { return halting_since_; }
  // Repetitions of the period that some member has started.
  uint64_t Repetitions() const;
  // Once all have halted (rule C6): instances that some but not all members of their set have started, in the period's
  // order. An error if the positions cannot be true.
  absl::optional<std::vector<Begun>> FindBegun(const MembersOf& members_of) const;
  // The phase rises, negotiation goes on.
  void Resume();

 private:
  Stage stage_ = Stage::kNegotiate;
  uint32_t phase_ = 0;
  uint64_t index_ = 0;
  Period period_;
  std::vector<uint64_t> next_;  // by rank
  RankSet halted_;
  TimePoint halting_since_;
};

}  // namespace farandole::controller::replay

#endif  // FARANDOLE_CONTROLLER_REPLAY_REPLAY_STATE_H_
