#ifndef FARANDOLE_CONTROLLER_JOB_REGISTRATION_H_
#define FARANDOLE_CONTROLLER_JOB_REGISTRATION_H_

#include <memory>
#include <vector>

#include "base/clock.h"
#include "controller/job/stale_workers.h"
#include "controller/members/generation_count.h"
#include "controller/members/key_store.h"
#include "controller/members/membership.h"
#include "controller/recovery/gather.h"
#include "controller/recovery/recovery.h"
#include "controller/types/actions.h"
#include "controller/types/job_config.h"
#include "proto/messages.h"

namespace farandole::controller::job {

// Which generation of an earlier incarnation of the controller registers, if one does (rule C9), from the first Hello
// that tells of it until the Gather is complete or hopeless. Pure.
class Registration {
 public:
  // All outlive this.
  Registration(const JobConfig* config, const StaleWorkers* stale, members::GenerationCount* generations)
      : config_(config), stale_(stale), generations_(generations) {}

  // Null: none goes on.
  recovery::Gather* gather() const { return gather_.get(); }

  // True if the worker is of the generation that registers; one begins if it is of one that is to. A job that has a
  // generation of its own does not call this.
  bool Concerns(const Hello& hello, TimePoint now, Actions* actions);
  // `may_begin`: the job has no generation of its own, so that a registration may still want to know.
  void OnEnded(const WorkerEnded& ended, bool may_begin, Actions* actions);
  // Those that the view was on its way to wait no more: they register.
  void TakeCandidates(members::Membership* waiting, Actions* actions);

  // Nobody has told the view: who has come is turned away.
  void GiveUp(Actions* actions);
  // Of a complete one; what members put meanwhile goes to `keys`.
  recovery::Recovery Finish(members::KeyStore* keys);

 private:
  bool MayBegin(const GenerationId& generation) const;
  void TurnAllAway(Actions* actions) const;

  const JobConfig* const config_;
  const StaleWorkers* const stale_;
  members::GenerationCount* const generations_;
  std::unique_ptr<recovery::Gather> gather_;
  // What agents said before anybody of their workers did.
  std::vector<WorkerEnded> ended_before_;
};

}  // namespace farandole::controller::job

#endif  // FARANDOLE_CONTROLLER_JOB_REGISTRATION_H_
