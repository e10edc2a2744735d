#ifndef FARANDOLE_TESTS_SIM_DATA_PLANE_H_
#define FARANDOLE_TESTS_SIM_DATA_PLANE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "proto/types.h"
#include "tests/sim/simulation.h"

namespace farandole::sim {

// The collectives between workers: one completes at a member some time after all members have entered it (at the root
// of a broadcast maybe before), or fails when somebody it needs is gone.
class DataPlane {
 public:
  // Once per Enter, on the process of the member. Suspect as of Communicator.
  using Done = std::function<void(const absl::Status&, Rank suspect)>;

  explicit DataPlane(Simulation* simulation) : simulation_(simulation) {}

  // Without it members are told only by their own Abort.
  void set_notices(bool notices) { notices_ = notices; }

  // `alone`: may complete before the others come.
  void Enter(const GenerationId& generation, uint64_t item, Rank rank, int size, bool alone, Process* process,
             Done done);
  // The member's connections are gone: it died, aborted or failed. What it is inside of ends with `status`, if its
  // process lives.
  void Gone(const GenerationId& generation, Rank rank, const absl::Status& status);

 private:
  struct Part {
    Process* process = nullptr;
    Done done;
    bool finished = false;
    bool well = false;
  };
  using Members = std::map<int32_t, Part>;
  using GenerationKey = std::pair<uint64_t, uint64_t>;
  struct Generation {
    std::map<uint64_t, Members> instances;
    std::vector<bool> gone;
  };
  static GenerationKey KeyOf(const GenerationId& id) { return {id.controller_incarnation, id.number}; }
  void Finish(Part* part, int64_t after_us, const absl::Status& status, Rank suspect);
  void Notice(Generation* generation, Members* members);

  Simulation* const simulation_;
  bool notices_ = true;
  std::map<GenerationKey, Generation> generations_;
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_DATA_PLANE_H_
