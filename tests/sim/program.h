#ifndef FARANDOLE_TESTS_SIM_PROGRAM_H_
#define FARANDOLE_TESTS_SIM_PROGRAM_H_

#include <cstdint>
#include <vector>

#include "proto/types.h"
#include "tests/sim/random.h"

namespace farandole::sim {

// What the script does in one generation, the same on all ranks: steps of the same collectives under the same names,
// submitted in any order. Legal, but for the collectives in which some rank differs, which all have to hear of.
class Program {
 public:
  // `calm`: no rank leaves early.
  Program(uint64_t seed, int size, bool calm);

  int steps() const { return steps_; }
  // Steps that may be under way at once: a step's names are free again when the one `depth` before is answered.
  int depth() const { return depth_; }
  int collectives() const { return static_cast<int>(kinds_.size()); }
  // What this rank submits.
  Request Collective(int step, int index, int rank) const;
  bool Mismatches(int step, int index) const;
  // Nothing is submitted for longer than a silent agent is borne with.
  bool PausesBefore(int step) const { return step == pauses_before_; }
  // Before this step the rank calls shutdown; steps() if it stays to the end.
  int LastStep(int rank) const { return rank == early_leaver_ ? leaves_before_ : steps_; }

 private:
  uint64_t Mix(int step, int index, int salt) const;

  const uint64_t seed_;
  const int size_;
  int steps_ = 1;
  int depth_ = 1;
  int mismatch_percent_ = 0;
  int pauses_before_ = -1;
  int early_leaver_ = -1;
  int leaves_before_ = 0;
  std::vector<OpKind> kinds_;
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_PROGRAM_H_
