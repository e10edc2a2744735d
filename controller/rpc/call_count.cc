#include "controller/rpc/call_count.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/job_name.h"

namespace farandole::controller::rpc {

struct CallCount::State {
  absl::Mutex mutex;
  absl::flat_hash_map<std::string, int> of_job ABSL_GUARDED_BY(mutex);  // none is 0
  int all ABSL_GUARDED_BY(mutex) = 0;
};

CallCount::CallCount(std::string what, int per_job_max, int all_max)
    : what_(std::move(what)), per_job_max_(per_job_max), all_max_(all_max), state_(std::make_shared<State>()) {}

absl::StatusOr<CallCount::Permit> CallCount::Take(absl::string_view job) const {
  const std::string whole(WholeJob(job));
  absl::MutexLock lock(&state_->mutex);
  const auto it = state_->of_job.find(whole);
  if (it != state_->of_job.end() && it->second >= per_job_max_) {
    return absl::ResourceExhaustedError(absl::StrCat(it->second, " ", what_, " of job \"", whole,
                                                     "\" are under way, the most that may be; end one or try later"));
  }
  if (state_->all >= all_max_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        state_->all, " ", what_, " are under way at this controller, the most that may be; try again later"));
  }
  ++state_->of_job[whole];
  ++state_->all;
  return Permit(nullptr, [state = state_, whole](void*) {
    absl::MutexLock lock(&state->mutex);
    --state->all;
    if (--state->of_job[whole] == 0) state->of_job.erase(whole);
  });
}

}  // namespace farandole::controller::rpc
