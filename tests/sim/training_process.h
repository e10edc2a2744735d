#ifndef FARANDOLE_TESTS_SIM_TRAINING_PROCESS_H_
#define FARANDOLE_TESTS_SIM_TRAINING_PROCESS_H_

#include <functional>
#include <string>
#include <utility>

#include "absl/types/optional.h"
#include "tests/sim/life.h"
#include "tests/sim/world.h"

namespace farandole::sim {

// A training process on one of the hosts, whatever its script does: one life of the library after the other.
class TrainingProcess {
 public:
  TrainingProcess(World* world, int host) : world_(world), host_(host), process_(world->NewProcess()) {}
  TrainingProcess(const TrainingProcess&) = delete;
  TrainingProcess& operator=(const TrainingProcess&) = delete;
  virtual ~TrainingProcess() = default;

  Process* process() const { return process_; }
  // Null before the first.
  Life* life() const { return life_; }
  int host() const { return host_; }
  // The one that it is in, or about to begin.
  virtual int step() const = 0;
  // What it is about to do, for people.
  virtual std::string Describe() const = 0;

  // Called once, a little later than it ends: with its exit code, or nullopt when its host is gone.
  void OnEnd(std::function<void(absl::optional<int>)> fn) { on_end_ = std::move(fn); }
  // Its agent notices how it ends.
  void Exit(int code);
  void KillBy(int signal);
  // Its host is gone: nobody notices.
  virtual void Vanish();
  // Fault: the last item of the life before this one arrives late.
  bool StaleItem();

 protected:
  void BeginLife(const worker::session::Session::Identity& identity, Life::Callbacks callbacks);
  // The life is over.
  void KeepLastItem();
  Rank rank() const { return life_->session().self().rank; }

  World* const world_;
  const int host_;
  Process* const process_;
  Life* life_ = nullptr;

 private:
  void End(int code, const std::string& cause);

  Item last_item_;  // of the life before
  absl::optional<int> code_;
  std::function<void(absl::optional<int>)> on_end_;
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_TRAINING_PROCESS_H_
