#ifndef FARANDOLE_TESTS_CONFORMANCE_OUTCOME_H_
#define FARANDOLE_TESTS_CONFORMANCE_OUTCOME_H_

#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "transport/channel.h"

namespace farandole::conformance {

// What became of one operation: counts calls of `done` and notes their thread. Outlives the operation, which shares it.
class Outcome {
 public:
  transport::Channel::Done done() {
    return [state = state_](absl::Status status) {
      absl::MutexLock lock(&state->mutex);
      ++state->calls;
      state->status = status;
      state->thread = std::this_thread::get_id();
    };
  }

  // Waits for `done`; a test that hangs fails here.
  absl::Status Wait() const {
    absl::MutexLock lock(&state_->mutex);
    if (!state_->mutex.AwaitWithTimeout(absl::Condition(
                                            +[](State* state) { return state->calls > 0; }, state_.get()),
                                        absl::Seconds(20))) {
      return absl::InternalError("`done` was not called in 20 s");
    }
    return state_->status;
  }
  int calls() const {
    absl::MutexLock lock(&state_->mutex);
    return state_->calls;
  }
  std::thread::id thread() const {
    absl::MutexLock lock(&state_->mutex);
    return state_->thread;
  }

 private:
  struct State {
    absl::Mutex mutex;
    int calls = 0;
    absl::Status status;
    std::thread::id thread;
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace farandole::conformance

#endif  // FARANDOLE_TESTS_CONFORMANCE_OUTCOME_H_
