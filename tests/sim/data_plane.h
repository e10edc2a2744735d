#ifndef FARANDOLE_TESTS_SIM_DATA_PLANE_H_
#define FARANDOLE_TESTS_SIM_DATA_PLANE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "proto/types.h"
#include "tests/sim/simulation.h"
#include "worker/collective/communicator.h"

namespace farandole::sim {

// The collectives between workers, by instance (D1): one completes at a member some time after all members have entered
// it (at the root of a broadcast maybe before), or fails when somebody it needs is gone. Instances of one set complete
// in order, those of different sets as it happens. Of one that is final nobody is told who is gone: work that was
// issued to an accelerator waits until it is aborted there.
class DataPlane {
 public:
  // Once per Enter that is not taken back, on the process of the member. Suspect as of Communicator.
  using Done = std::function<void(const absl::Status&, Rank suspect)>;

  explicit DataPlane(Simulation* simulation) : simulation_(simulation) {}

  // Without it members are told only by their own Abort.
  void set_notices(bool notices) { notices_ = notices; }

  struct Entry {
    GenerationId generation;
    uint32_t set = 0;
    worker::collective::Instance instance;
    Rank rank;
    const std::vector<int>* ranks = nullptr;  // of the set, as the member knows it
    bool alone = false;                       // may complete before the others come
    bool final = false;                       // only the member's own Gone takes it out
  };
  void Enter(const Entry& entry, Process* process, Done done);
  // W8, D4: the member takes back what it contributed. False if it has completed, or is about to.
  bool Withdraw(const Entry& entry);
  // The member's connections are gone: it died, aborted or failed. What it is inside of ends with `status`, if its
  // process lives.
  void Gone(const GenerationId& generation, Rank rank, const absl::Status& status);

 private:
  struct Part {
    Rank rank;
    Process* process = nullptr;
    Done done;
    bool finished = false;
    bool well = false;
  };
  using Parts = std::vector<Part>;
  using InstanceKey = std::tuple<uint32_t, uint64_t, uint64_t>;
  using GenerationKey = std::pair<uint64_t, uint64_t>;
  struct Meeting {
    std::vector<int> ranks;
    bool final = false;
    Parts parts;
  };
  struct Generation {
    std::map<InstanceKey, Meeting> instances;
    std::vector<bool> gone;
    std::map<int32_t, absl::Status> failed;                             // by rank: what it is told, or about to be
    absl::flat_hash_map<std::pair<uint32_t, int32_t>, TimePoint> last;  // completion by set and rank
  };
  static GenerationKey KeyOf(const GenerationId& id) { return {id.controller_incarnation, id.number}; }
  void Complete(Generation* generation, uint32_t set, Part* part, int64_t after_us);
  void Fail(Generation* generation, Part* part, int64_t after_us, const absl::Status& status, Rank suspect);
  void Notice(Generation* generation, Meeting* meeting);

  Simulation* const simulation_;
  bool notices_ = true;
  std::map<GenerationKey, Generation> generations_;
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_DATA_PLANE_H_
