#ifndef FARANDOLE_CONTROLLER_JOB_JOINING_H_
#define FARANDOLE_CONTROLLER_JOB_JOINING_H_

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "base/clock.h"
#include "controller/members/agent_table.h"
#include "controller/members/elastic_rules.h"
#include "controller/members/generation_count.h"
#include "controller/members/membership.h"
#include "controller/members/roster.h"
#include "controller/recovery/gather.h"
#include "controller/types/actions.h"
#include "controller/types/job_config.h"
#include "controller/types/job_status.h"
#include "proto/messages.h"

namespace farandole::controller::job {

// The generation that a joiner finds: the last one, which runs or is over. A null roster: there was none.
struct Present {
  const members::Roster* roster = nullptr;
  bool runs = false;
};

// Who wants to be a member, what each is told, and who makes up the next generation. Composed of Membership, and of
// ElasticRules for a job that grows and shrinks. Pure.
class Joining {
 public:
  // All outlive this.
  Joining(const JobConfig* config, const members::AgentTable* agents, members::GenerationCount* generations)
      : config_(config),
        agents_(agents),
        generations_(generations),
        waiting_(config->size_max),
        next_(config->size_max) {
    if (!config->finished.run.empty()) finished_.push_back(config->finished);
  }

  // For the present run.
  const members::Membership& waiting() const { return waiting_; }
  const members::Candidate* Find(Incarnation worker) const;
  bool HasAgent(const std::string& agent_id) const { return waiting_.HasAgent(agent_id) || next_.HasAgent(agent_id); }
  // Whether processes behind this agent may come back to the job.
  bool Awaits(const std::string& agent_id) const { return elastic_.Awaits(agent_id); }
  bool Empty() const { return waiting_.candidates().empty() && next_.candidates().empty(); }
  // For those that turn out to be members already.
  members::Membership* mutable_waiting() { return &waiting_; }
  members::Membership* mutable_next() { return &next_; }
  // The present generation, or the last one, is elastic.
  bool elastic() const { return elastic_.elastic(); }
  // The last one.
  FinishedRun finished() const { return finished_.empty() ? FinishedRun() : finished_.back(); }

  // An agent connects. As long as this controller may have taken the place of another one, members of a generation of
  // an elastic job may be on their way, and none opens without them: for a moment after its start, and for longer once
  // an agent comes that another one has welcomed last (0: none has).
  void OnAgent(uint64_t welcomed_by, TimePoint now);
  // Admitted or refused, with an answer.
  void OnHello(const std::string& agent_id, const Hello& hello, const Present& present, TimePoint now,
               Actions* actions);
  // The launcher wants this worker to leave.
  void OnRetire(const std::string& agent_id, const Retire& retire, const Present& present, Actions* actions);
  // True if it was waiting.
  bool OnEnded(const std::string& agent_id, const WorkerEnded& ended, Actions* actions);
  // `ended` names a rank for which nobody calls init() any more.
  void OnRankEnded(const std::string& agent_id, const WorkerEnded& ended, Actions* actions);
  void OnAgentLost(const std::string& agent_id);
  void CloseSessions(const std::string& agent_id) {
    waiting_.CloseSessions(agent_id);
    next_.CloseSessions(agent_id);
  }

  // The members of the next generation; empty: it does not begin yet. `present` does not run; `occupied`: it has
  // members that are not gone.
  std::vector<members::Candidate> Choose(const Present& present, bool occupied, TimePoint now);
  // When Choose() may have another answer although nothing has happened.
  TimePoint Deadline() const { return held_until_ ? *held_until_ : elastic_.Deadline(waiting_); }
  // A generation of these has begun.
  void Begun(const std::vector<members::Candidate>& members, const members::Roster& roster);
  // Who was to leave, was needed so far, and has found no room.
  void TurnRetiredAway(Actions* actions);
  // A generation goes on that an earlier incarnation of the controller knew.
  void Restored(const recovery::Recovered& found, Actions* actions);
  // Joiners that came while it was not known that their ranks are held.
  void RefuseHeld(const members::Roster& roster, Actions* actions);

  // How the next generation would differ from this one, but for its number; nullopt: its members know.
  absl::optional<MembershipNotice> Changes(const members::Roster& roster) { return elastic_.Changes(waiting_, roster); }
  // What its members were told last, for one that may have missed it.
  absl::optional<MembershipNotice> Told() const;
  void FillWaits(const Present& present, TimePoint now, JobStatus* status) const;

 private:
  // Of the first rank that is needed and does not come any more; "" if there is none.
  std::string WhyInVain() const;
  // All that wait for the present run.
  void RefuseAll(const std::string& reason, Actions* actions);
  std::string RefusalOf(const Hello& hello, const Present& present);
  void Refuse(const std::string& agent_id, const Hello& hello, const std::string& reason, Actions* actions,
              RemovedKind kind = RemovedKind::kRefused) const;
  void Welcome(const std::string& agent_id, const Hello& hello, bool runs, Actions* actions) const;
  void TurnAway(const std::string& agent_id, const Hello& hello, const std::string& reason, Actions* actions);
  // Where one of this run waits: for the present run, or for the next, whose processes must not be handed the state of
  // this one. Null: neither.
  members::Membership* PlaceOf(const std::string& run, const Present& present, TimePoint now);
  void NoLongerHeld() {
    begun_ = true;
    held_until_.reset();
  }
  // Nobody is a member of the present run any more, nor may come back, nor waits for it.
  bool IsVacant(const Present& present) const;
  void BeginNextRun(const Present& present, TimePoint now);
  // It turns out to be the present one, after somebody has come.
  void RunGoesOn(const std::string& run, Actions* actions);
  // Whether one of them was a member of a generation before.
  static bool AnySurvives(const members::Membership& place);
  // Null: this one is not finished, for all that is known.
  const FinishedRun* FindFinished(const std::string& run) const;
  // Why one comes when all is done: its run is finished, and it was not a member of the last generation. Null: it does
  // not.
  const FinishedRun* TooLate(const std::string& agent_id, const Hello& hello) const;
  void Finish(const std::string& agent_id, const WorkerEnded& ended, Actions* actions);

  const JobConfig* const config_;
  const members::AgentTable* const agents_;
  members::GenerationCount* const generations_;
  members::Membership waiting_;
  members::Membership next_;
  std::string run_;       // those in waiting_, and the members
  std::string next_run_;  // those in next_
  members::ElasticRules elastic_;
  // Ranks whose processes have ended, in that order, and the sentence on each: a job of fixed size does not begin
  // without them. At most kEndedRanksMax.
  std::vector<std::pair<Rank, std::string>> ended_ranks_;
  // In the order of their ends, at most kFinishedRunsMax.
  std::deque<FinishedRun> finished_;
  // See OnAgent.
  absl::optional<TimePoint> held_until_;
  bool took_over_ = false;
  bool begun_ = false;  // a generation has, or goes on
};

}  // namespace farandole::controller::job

#endif  // FARANDOLE_CONTROLLER_JOB_JOINING_H_
