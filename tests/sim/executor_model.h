#ifndef FARANDOLE_TESTS_SIM_EXECUTOR_MODEL_H_
#define FARANDOLE_TESTS_SIM_EXECUTOR_MODEL_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/sim/world.h"
#include "worker/session/work.h"

namespace farandole::sim {

// worker/execute/executor.h without its thread (W5): items in order, at most W batches in flight through the simulated
// data plane, everything else when nothing is in flight.
class ExecutorModel {
 public:
  struct Callbacks {
    std::function<void(worker::session::Work)> on_done;
    std::function<void(worker::session::Work, const absl::Status&, Rank)> on_broken;
    std::function<void(worker::session::Work)> on_withdrawn;
  };
  ExecutorModel(World* world, Process* process, Callbacks callbacks)
      : world_(world), process_(process), callbacks_(std::move(callbacks)) {}

  void SetGroup(const GenerationId& generation, Rank rank, int size);
  void Push(worker::session::Work work);
  // W8: takes this instance back, unless all members have entered it.
  void Withdraw(uint32_t process_set, const worker::collective::Instance& instance);
  // Hands back what was not begun. Batches that run end with ABORTED.
  std::vector<worker::session::Work> Abort(const std::string& reason);
  // The batches that run fail, as if the network had broken.
  void Fail();
  bool Runs(const worker::collective::Instance& instance) const;
  bool running() const { return !in_flight_.empty() || withdrawing_ > 0; }

 private:
  struct Running {
    worker::session::Work work;
    bool batch;
  };
  using Place = std::list<Running>::iterator;
  void Next();
  void StartBatch(Place place);
  void Done(Place place);
  void Broken(Place place, const absl::Status& status, Rank suspect);
  void LearnSet(const worker::session::Work& work);
  bool Alone(const worker::session::Work& work) const;
  bool HasRoom(const worker::session::Work& batch) const;
  DataPlane::Entry EntryOf(uint32_t process_set, const worker::collective::Instance& instance) const;

  World* const world_;
  Process* const process_;
  const Callbacks callbacks_;
  GenerationId generation_;
  Rank rank_;
  std::map<uint32_t, std::vector<int>> sets_;
  std::deque<worker::session::Work> queue_;
  std::list<Running> in_flight_;
  int withdrawing_ = 0;  // taken back and not yet told so
  bool ended_ = false;
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_EXECUTOR_MODEL_H_
