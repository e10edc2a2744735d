#ifndef FARANDOLE_CONTROLLER_REPLAY_REPLAY_CONTROL_H_
#define FARANDOLE_CONTROLLER_REPLAY_REPLAY_CONTROL_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "base/clock.h"
#include "controller/log/outbox.h"
#include "controller/members/roster.h"
#include "controller/replay/back_off.h"
#include "controller/replay/begun_list.h"
#include "controller/replay/detector.h"
#include "controller/replay/replay_state.h"
#include "controller/types/actions.h"
#include "controller/types/job_config.h"
#include "proto/messages.h"

namespace farandole::controller::replay {

// When a generation replays, how a replay ends, and what is done about instances that only some had begun by then
// (rules C2 to C6 of docs/replay.md). Pure. Knows nothing of the table of requests.
class ReplayControl {
 public:
  using Stage = ReplayState::Stage;

  // What a restarted controller has found out about the replay of a generation.
  struct Found {
    uint32_t phase;
    Stage stage;
    // The Replay item of the replay that runs, or that left something begun; 0 = none.
    uint64_t replay_index;
    const Period& period;
    // Open begun instances.
    const std::vector<Begun>& begun;
  };

  // All but `members_of`, which is copied, outlive this.
  ReplayControl(const JobConfig& config, members::Roster* roster, log::Outbox* outbox, MembersOf members_of);

  const ReplayState& state() const { return state_; }
  const BegunList& begun() const { return begun_; }
  uint32_t phase() const { return state_.phase(); }
  bool negotiating() const { return state_.stage() == Stage::kNegotiate; }
  // One of them is inside an open begun instance: nothing but Enter and Withdraw may go to it (rule C1), or its
  // sequence would differ from that of others.
  bool Busy(const RankSet* members) const { return begun_.Busy(members); }

  // As a restarted controller finds it. Nobody is told anything.
  void Restore(const Found& found, TimePoint now);

  // What a member says in or after a replay; other phases change nothing.
  void OnBreak(Rank rank, const Break& said, TimePoint now, Actions* actions);
  void OnHalted(Rank rank, const Halted& halted);
  // Of a session that opens in a replay, or while it ends.
  void OnHello(Rank rank, const Hello& hello, TimePoint now, Actions* actions);

  // While negotiating.
  BegunList::Heard Announce(Rank rank, const Request& request) { return begun_.Announce(rank, request); }
  void Forget(Rank rank) { begun_.Forget(rank); }
  std::vector<uint64_t> Joined(Rank rank) { return begun_.Joined(rank); }
  void NotJoined(Rank rank) { begun_.NotJoined(rank); }
  // What only some had begun there, and is not kept, is given up, and all negotiate it again (rule C3). What members
  // had announced of these instances belongs to the table now; the item is sent.
  BegunList::Withdrawing Withdraw(uint32_t process_set, const std::string& reason, Actions* actions);
  // Rule C3b: instances that have waited too long and could be withdrawn, by process set; the wait begins anew.
  struct Overdue {
    uint32_t process_set = 0;
    std::vector<Rank> lacking;  // for whom they wait, maybe more than once
    std::string reason;         // "rank 1 (pid 7 on host b) has not submitted x"
  };
  std::vector<Overdue> TakeOverdue(TimePoint now);
  // Of the first open instance, among these or of all, that is kept: "`x` was begun in the replay by rank 0 and cannot
  // be withdrawn, as it lies on an accelerator"; "" if none is.
  std::string KeptText(const std::vector<uint64_t>* among = nullptr) const;

  // Ends the replay (rule C6), if all have halted and there is room for the item. An error if that cannot be; the
  // generation has to fail.
  absl::Status Resume(TimePoint now, Actions* actions);
  // Lets the others enter what some have begun, where all of them have announced it (rule C2).
  void SendEnters(Actions* actions);
  // For the detector.
  void Dispatched(PeriodBatch batch);
  void Interrupted();
  // The period that has repeated itself often enough to be replayed now, as far as it is known here (rule C4). In the
  // batches of its last replay if those are not more, which may mean to wait until one of them begins.
  absl::optional<Detector::Found> Wanted();
  void Begin(Detector::Found found, Actions* actions);

  // When TakeOverdue() may have something.
  TimePoint NextDeadline() const { return begun_.empty() ? TimePoint::Infinite() : overdue_; }

 private:
  void Halt(TimePoint now, Actions* actions);
  std::vector<Detector::Found>::iterator FindReplayed(uint64_t digest);
  void KeepFewestBatches(const Detector::Found& found);
  // When what waits from `now` on has waited too long.
  TimePoint OverdueAt(TimePoint now) const { return now.PlusMs(config_.withdraw_after_ms); }
  std::string LackText(const BegunList::Instance& instance) const;

  const JobConfig& config_;
  members::Roster* const roster_;
  log::Outbox* const outbox_;
  const MembersOf members_of_;
  ReplayState state_;
  BegunList begun_;
  Detector detector_;
  BackOff back_off_;
  // By digest: the composition with the fewest batches of the last few that were replayed. One that returns after a
  // single repetition, whose batches may have come apart, is replayed as it was before.
  std::vector<Detector::Found> replayed_;
  // Something could be replayed, but not yet in the batches of its last replay: it is after so many more at the latest.
  absl::optional<size_t> awaited_;
  uint64_t digest_ = 0;  // of the replay that runs or ended last
  TimePoint overdue_ = TimePoint::Infinite();
};

}  // namespace farandole::controller::replay

#endif  // FARANDOLE_CONTROLLER_REPLAY_REPLAY_CONTROL_H_
