#ifndef FARANDOLE_TESTS_SIM_VERDICT_H_
#define FARANDOLE_TESTS_SIM_VERDICT_H_

#include <string>

#include "tests/sim/simulation.h"

namespace farandole::sim {

// What the checkers of a run have found.
class Verdict {
 public:
  explicit Verdict(const Simulation* simulation) : simulation_(simulation) {}
  // The first one; "" if none.
  const std::string& violation() const { return violation_; }
  void Fail(const std::string& what);
  const Simulation& simulation() const { return *simulation_; }

 private:
  const Simulation* const simulation_;
  std::string violation_;
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_VERDICT_H_
