#ifndef FARANDOLE_TESTS_SIM_EXECUTOR_MODEL_H_
#define FARANDOLE_TESTS_SIM_EXECUTOR_MODEL_H_

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "tests/sim/world.h"
#include "worker/work.h"

namespace farandole::sim {

// worker/executor.h without its thread: items in order, one at a time, batches through the simulated data plane.
class ExecutorModel {
 public:
  struct Callbacks {
    std::function<void(Work)> on_done;
    std::function<void(Work, const absl::Status&, Rank)> on_broken;
  };
  ExecutorModel(World* world, Process* process, Callbacks callbacks)
      : world_(world), process_(process), callbacks_(std::move(callbacks)) {}

  void SetGroup(const GenerationId& generation, Rank rank, int size);
  void Push(Work work);
  // Hands back what was not begun. A batch that runs ends with ABORTED.
  std::vector<Work> Abort(const std::string& reason);
  // The batch that runs fails, as if the network had broken.
  void Fail();
  bool running() const { return running_.has_value(); }

 private:
  void Next();
  void Done();
  void Broken(const absl::Status& status, Rank suspect);

  World* const world_;
  Process* const process_;
  const Callbacks callbacks_;
  GenerationId generation_;
  Rank rank_;
  int size_ = 0;
  std::deque<Work> queue_;
  absl::optional<Work> running_;
  bool ended_ = false;
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_EXECUTOR_MODEL_H_
