#ifndef FARANDOLE_TESTS_SIM_RUN_H_
#define FARANDOLE_TESTS_SIM_RUN_H_

#include <cstdint>
#include <string>

#include "tests/sim/bugs.h"
#include "tests/sim/coverage.h"

namespace farandole::sim {

struct RunResult {
  std::string violation;  // "" if the run was clean; otherwise what, when, and how to see it again
  uint64_t digest = 0;    // equal for equal runs
  uint64_t events = 0;
  double seconds = 0;  // simulated
};

// Which seeds are of elastic jobs.
bool IsElastic(uint64_t seed);

// A whole job with its faults, from one seed: a phase in which only safety is asked for, then one in which it has to
// get on and finish a generation in a bounded time. `trace`: to stderr, what happens.
RunResult RunSeed(uint64_t seed, const Bugs& bugs, bool trace, Coverage* coverage);

struct Scale {
  int ranks = 1000;
  int steps = 2000;
  int tensors = 161;
};

// One generation of that size that repeats itself but for one step in 200, with a fault every 20 steps that nobody may
// notice.
RunResult RunScale(const Scale& scale, Coverage* coverage);

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_RUN_H_
