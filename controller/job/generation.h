#ifndef FARANDOLE_CONTROLLER_JOB_GENERATION_H_
#define FARANDOLE_CONTROLLER_JOB_GENERATION_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "base/clock.h"
#include "controller/job/sequencer.h"
#include "controller/job/trace_relay.h"
#include "controller/log/item_log.h"
#include "controller/members/agent_table.h"
#include "controller/members/failure_reports.h"
#include "controller/members/key_store.h"
#include "controller/members/roster.h"
#include "controller/recovery/recovery.h"
#include "controller/types/actions.h"
#include "controller/types/job_config.h"
#include "controller/types/job_status.h"
#include "controller/waits/wait_watch.h"

namespace farandole::controller::job {

// One membership from its opening to its end: who takes part, what its Sequencer is told, whom it waits for, and why it
// fails. Pure. Rules named in comments are those of docs/replay.md.
//
//   kRunning --all left--> kOver
//   kRunning --a member ended without leaving, was given up, or reported a failure--> kFailed
class Generation {
 public:
  enum class Life { kRunning, kFailed, kOver };

  // `members` as from Membership::Take(). What rank 0's environment says takes the place of config.settings.
  Generation(GenerationId id, const std::vector<members::Candidate>& members, const JobConfig& config);

  // One that an earlier incarnation of the controller opened; Restore() has to follow.
  Generation(const recovery::Recovery& recovery, const JobConfig& config);

  // Sends the view to all.
  void Open(Actions* actions);

  // After a restart of the controller (rule C9, steps 3 to 6): everybody gets what it lacks, and what everybody has
  // said counts from now on.
  void Restore(const recovery::Recovery& recovery, TimePoint now, Actions* actions);

  const GenerationId& id() const { return id_; }
  Life life() const { return life_; }
  // Why it failed.
  const std::string& reason() const { return reason_; }
  const members::Roster& roster() const { return roster_; }

  // What members leave for each other; see Job.
  absl::Status PutKey(const std::string& key, const std::string& value, size_t shared_elsewhere);
  absl::StatusOr<std::string> FindKey(const std::string& key) const { return keys_.Find(key); }
  size_t shared_key_bytes() const { return keys_.shared_bytes(); }
  // Those that were put while the generation was gathered.
  void TakeKeys(members::KeyStore keys);

  void TellAll(WorkerDown message, Actions* actions) { roster_.ToAll(std::move(message), actions); }
  void TellOne(Rank rank, WorkerDown message, Actions* actions) const {
    roster_.ToOne(rank, std::move(message), actions);
  }

  // What a member says. Of Hello the caller has compared the generation.
  void OnHello(Rank rank, const Hello& hello, const std::string& agent_id, TimePoint now, Actions* actions);
  // A rank that says something, with its own progress: its agent merges what several say alike (rule A2).
  struct Progressed {
    Rank rank;
    uint64_t received_through;
    uint64_t completed_through;
  };
  void OnAnnounce(absl::Span<const Progressed> who, const Announce& announce, TimePoint now, Actions* actions);
  void OnBreak(Rank rank, const Break& said, TimePoint now, Actions* actions);
  void OnHalted(absl::Span<const Progressed> who, const Halted& halted, TimePoint now, Actions* actions);
  void OnAck(Rank rank, const Ack& ack, TimePoint now, Actions* actions);
  void OnTraceControl(Rank rank, const TraceControl& control, Actions* actions) {
    if (Listens(rank, control.generation)) trace_.OnControl(rank, control, &roster_, actions);
  }
  void OnTrace(Rank rank, const Trace& trace, Actions* actions) {
    if (Listens(rank, trace.generation)) trace_.OnTrace(rank, trace, roster_, actions);
  }
  void OnLeave(Rank rank, const farandole::Leave& leave, TimePoint now, Actions* actions);
  void OnFailed(Rank rank, const Failed& failed, TimePoint now, Actions* actions);

  // What its agent says, or its silence. `cause` completes "rank 1 (pid 7 on host b) ...".
  void OnEnded(Rank rank, const std::string& cause, Actions* actions);
  // The process has begun another life.
  void OnReborn(Rank rank, Actions* actions);
  void OnHealth(Rank rank, bool responsive, const std::string& cause, TimePoint now, Actions* actions);
  void OnReport(Rank rank, const WorkerReport& report, TimePoint now);
  void OnAgentLost(const std::string& agent_id, const std::string& text, Actions* actions);
  // Whether a report that waits for evidence points to one of these.
  bool Suspects(const std::vector<Rank>& ranks) const;
  void CloseSessions(const std::string& agent_id, TimePoint now) { roster_.CloseSessions(agent_id, now); }

  void Tick(TimePoint now, Actions* actions);
  TimePoint NextDeadline() const;

  void FillStatus(const members::AgentTable& agents, TimePoint now, JobStatus* status) const;

 private:
  // What each rank's environment says about the job. Empty: nothing is known of that rank.
  using Variables = std::vector<const std::vector<Variable>*>;
  Generation(GenerationId id, members::Roster roster, std::string data_key, log::ItemLog log,
             const Variables& variables, const JobConfig& config);
  void TakeSeat(Rank rank, const recovery::Registered& member);
  // After the Welcome, the member gets what it lacks, and what its Hello says counts (rule C8).
  void GoOn(Rank rank, const Hello& hello, TimePoint now, Actions* actions);
  void Remove(Rank rank, const Hello& hello, Actions* actions);
  bool Listens(Rank rank, const GenerationId& generation) const;
  void LetGo(Rank rank, TimePoint now, Actions* actions);
  bool Good(const absl::Status& status, Actions* actions);
  void Send(TimePoint now, Actions* actions);
  std::vector<OpenWait> Waits(TimePoint now) const;
  void LookAtWaits(TimePoint now, Actions* actions);
  void Fail(const std::string& sentence, Actions* actions);
  std::string LeftBefore(Rank ended) const;

  const GenerationId id_;
  const JobConfig config_;
  // For rank 0: what other ranks wanted.
  const std::vector<std::string> disregarded_;
  const std::string data_key_;
  Life life_ = Life::kRunning;
  std::string reason_;
  TraceRelay trace_;
  members::Roster roster_;
  Sequencer sequencer_;
  members::KeyStore keys_;
  waits::WaitWatch watch_;
  // Failures that wait for evidence of a death, or for what other members report; until when.
  members::FailureReports failures_;
  TimePoint verdict_due_;
};

}  // namespace farandole::controller::job

#endif  // FARANDOLE_CONTROLLER_JOB_GENERATION_H_
