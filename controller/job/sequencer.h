#ifndef FARANDOLE_CONTROLLER_JOB_SEQUENCER_H_
#define FARANDOLE_CONTROLLER_JOB_SEQUENCER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "controller/log/outbox.h"
#include "controller/members/roster.h"
#include "controller/ready/negotiator.h"
#include "controller/recovery/recovery.h"
#include "controller/replay/replay_control.h"
#include "controller/types/actions.h"
#include "controller/types/job_config.h"
#include "controller/types/open_wait.h"
#include "controller/waits/report_table.h"
#include "proto/messages.h"

namespace farandole::controller::job {

// What the members of a generation execute, in one order for all: their announcements become items of the log, or they
// replay what repeats itself. Composed of Negotiator, ReplayControl and Outbox. Pure. Rules named in comments are those
// of docs/replay.md. An error says why the generation has to fail; after one only Clear() and what is const may be
// called.
class Sequencer {
 public:
  struct Callbacks {
    ready::Negotiator::Note announced;
    // Item `item` has removed this process set.
    std::function<void(uint32_t process_set, uint64_t item)> set_removed;
  };

  // `config` and `roster` outlive this.
  Sequencer(const JobConfig& config, log::ItemLog log, members::Roster* roster, Callbacks callbacks);

  // What an earlier incarnation of the controller had come to: first who has left, then, if there is no fault, the
  // replay.
  void RestoreMembers(const recovery::Recovery& recovery);
  void RestoreReplay(const recovery::Recovery& recovery, TimePoint now);

  uint32_t phase() const { return replay_.phase(); }
  bool negotiating() const { return replay_.negotiating(); }

  // A session has opened: sends again what the member lacks, and takes what it says about the phase it was sent in
  // (rule C8, after the Welcome).
  absl::Status OnHello(Rank rank, const Hello& hello, TimePoint now, Actions* actions);
  // An error if what the worker says cannot be.
  absl::Status OnProgress(Rank rank, uint64_t received_through, uint64_t completed_through);
  // What these ranks, of which none has left, announce alike. Only while negotiating().
  absl::Status OnAnnounce(const std::vector<ready::Negotiator::Teller>& who, const std::vector<Request>& requests,
                          const std::vector<CachedRequests>& cached, TimePoint now, Actions* actions);
  void OnBreak(Rank rank, const Break& said, TimePoint now, Actions* actions) {
    replay_.OnBreak(rank, said, now, actions);
  }
  void OnHalted(Rank rank, const Halted& halted) { replay_.OnHalted(rank, halted); }
  // It takes part in nothing new. Only while negotiating().
  absl::Status OnLeave(Rank rank, TimePoint now, Actions* actions);
  // A leaver goes once it has executed all that concerns it, for others may wait for its part. True if it goes now.
  bool LetGo(Rank rank, TimePoint now);
  // Who was kept back until the others had received something, and may go now; to be asked for with LetGo() again.
  std::vector<Rank> TakeKeptBack(TimePoint now);

  // Withdraws what has waited too long for some members (rule C3b).
  void Tick(TimePoint now, Actions* actions);
  TimePoint NextDeadline() const;
  // Sends what can be sent. Call after each step.
  absl::Status Send(TimePoint now, Actions* actions);
  // Nothing is to be executed any more.
  void Clear();

  // For status and waits.
  std::vector<OpenWait> Waits(const waits::ReportTable& reports, TimePoint now) const;
  const log::ItemLog& log() const { return outbox_.log(); }
  const replay::ReplayState& replay() const { return replay_.state(); }
  // See ReplayControl.
  std::string KeptText() const { return replay_.KeptText(); }
  uint32_t OpenCount(Rank rank) const { return negotiator_.OpenCount(rank); }
  uint64_t tensors() const { return tensors_; }

 private:
  absl::Status Resend(Rank rank, const Hello& hello, std::vector<Request>* requests, Actions* actions);
  // While instances of the last replay are open.
  absl::Status AnnounceBeside(const ready::Negotiator::Teller& teller, const Request& request, TimePoint now,
                              Actions* actions);
  // These begun instances cannot take place, for this reason (rule C3a).
  absl::Status GiveUp(const std::vector<uint64_t>& seqs, const std::string& reason, TimePoint now, Actions* actions);
  void Withdraw(uint32_t process_set, const std::string& reason, TimePoint now, Actions* actions);
  bool KeepsOthersWaiting(const std::vector<Rank>& lacking) const;
  absl::Status FullError() const;
  bool EndJoins();
  bool SendBatches(TimePoint now, Actions* actions);
  bool KeepsBack(TimePoint now);
  void NoteReplayEnd(TimePoint now);
  void TryReplay(Actions* actions);
  std::string LeftText(const std::vector<Rank>& left) const;
  std::string Who(Rank rank) const { return Describe(roster_->seat(rank).member); }
  const RankSet* MembersOf(uint32_t process_set) const;

  members::Roster* const roster_;
  const std::function<void(uint32_t, uint64_t)> set_removed_;
  log::Outbox outbox_;
  ready::Negotiator negotiator_;
  replay::ReplayControl replay_;
  RankSet kept_back_;
  uint64_t replay_end_ = 0;  // index of the last Resume or Withdraw that was sent at
  TimePoint replay_end_at_;
  uint64_t tensors_ = 0;
};

}  // namespace farandole::controller::job

#endif  // FARANDOLE_CONTROLLER_JOB_SEQUENCER_H_
