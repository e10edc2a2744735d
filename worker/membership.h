#ifndef FARANDOLE_WORKER_MEMBERSHIP_H_
#define FARANDOLE_WORKER_MEMBERSHIP_H_

#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "worker/config.h"
#include "worker/control/link_events.h"
#include "worker/control/steps.h"
#include "worker/execute/executor.h"
#include "worker/link/control_link.h"
#include "worker/link/link_bootstrap.h"
#include "worker/session/place.h"
#include "worker/timeline/job_timeline.h"

namespace farandole::worker {

// This process as a member of its job, from the first view on: who else is there, and what they share. Any thread.
class Membership {
 public:
  // All outlive this.
  Membership(const Config* config, control::Steps* steps, link::ControlLink* link, const control::LinkEvents* events,
             execute::Executor* executor, timeline::JobTimeline* timeline)
      : config_(config), steps_(steps), link_(link), events_(events), executor_(executor), timeline_(timeline) {}

  // Within the step in which the view has come: makes the executor ready for batches.
  void Begin();
  // With the mutex of the steps held.
  bool begun() const {
    steps_->mutex()->AssertHeld();
    return begun_;
  }

  // Once begun, also when it has ended since.
  View view() const;
  Member self() const;
  // How the next membership would differ from this one as things stand; zeros outside of elastic jobs.
  MembershipNotice notice() const;
  // Size 0 also when the membership has never begun.
  session::Place PlaceIn(uint32_t process_set, Rank root = Rank()) const;
  // nullopt: there is none of this id.
  absl::optional<ProcessSet> process_set(uint32_t id) const;

  // See SharedMemory::Allocate. UNAVAILABLE also if the members of the process set do not reduce in shared memory.
  absl::StatusOr<char*> AllocateShared(uint32_t process_set, int64_t bytes);

 private:
  // OK if all members of the process set reduce in shared memory, otherwise the reason why not.
  absl::Status SharesMemory(uint32_t process_set) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(steps_->mutex());

  const Config* const config_;
  control::Steps* const steps_;
  link::ControlLink* const link_;
  const control::LinkEvents* const events_;
  execute::Executor* const executor_;
  timeline::JobTimeline* const timeline_;
  // Constant once begun.
  std::unique_ptr<link::LinkBootstrap> bootstrap_;
  bool begun_ ABSL_GUARDED_BY(steps_->mutex()) = false;
};

}  // namespace farandole::worker

#endif  // FARANDOLE_WORKER_MEMBERSHIP_H_
