#ifndef FARANDOLE_TESTS_SIM_CARRIED_H_
#define FARANDOLE_TESTS_SIM_CARRIED_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "proto/types.h"

namespace farandole::sim {

// What an elastic script must not lose.
struct TrainState {
  std::string run;  // in which its training began
  int steps = 0;    // done so far
};

// What one rank puts into a collective.
struct Contribution {
  std::array<int64_t, 2> values = {};
  TrainState state;
};

// The contents of collectives, which the data plane of the simulator does not know: what scripts have put into one, by
// the label of its calls. Whose call is answered may look.
class Carried {
 public:
  void Put(const GenerationId& id, uint64_t label, Rank rank, Contribution contribution) {
    all_[{id.controller_incarnation, id.number, label}][rank] = std::move(contribution);
  }
  // The largest of each value among all ranks.
  std::array<int64_t, 2> Largest(const GenerationId& id, uint64_t label) {
    std::array<int64_t, 2> largest = {};
    for (const auto& [rank, contribution] : all_[{id.controller_incarnation, id.number, label}]) {
      for (size_t i = 0; i < largest.size(); ++i) largest[i] = std::max(largest[i], contribution.values[i]);
    }
    return largest;
  }
  // That of rank 0.
  const TrainState& OfRoot(const GenerationId& id, uint64_t label) {
    return all_[{id.controller_incarnation, id.number, label}][Rank(0)].state;
  }

 private:
  std::map<std::tuple<uint64_t, uint64_t, uint64_t>, std::map<Rank, Contribution>> all_;
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_CARRIED_H_
