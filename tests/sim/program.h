#ifndef FARANDOLE_TESTS_SIM_PROGRAM_H_
#define FARANDOLE_TESTS_SIM_PROGRAM_H_

#include <cstdint>
#include <vector>

#include "proto/types.h"
#include "tests/sim/program_shape.h"

namespace farandole::sim {

// One call of a script.
struct Call {
  Request request;
  int set = 0;         // of the script; whoever submits it knows the id
  uint64_t label = 0;  // equal for the calls of all ranks that belong together, and for no others
  bool mismatches = false;
};

struct Statement {
  // kWait: until everything submitted in `step` and before is answered.
  enum class Kind : uint8_t { kSubmit, kWait, kCompute };
  Kind kind = Kind::kSubmit;
  Call call;
  int step = 0;
};

// What the script does in one generation at each rank. Legal, but for the collectives in which some rank differs, which
// all have to hear of, and for divergence. A pure function of seed, step and rank.
class Program {
 public:
  Program(uint64_t seed, int size, bool calm);
  Program(uint64_t seed, Shape shape) : seed_(seed), shape_(std::move(shape)) {}

  const Shape& shape() const { return shape_; }
  int steps() const { return shape_.steps; }
  std::vector<Statement> Step(int step, int rank) const;
  // Before this step the rank calls shutdown; steps() if it stays to the end.
  int LastStep(int rank) const { return rank == shape_.early_leaver ? shape_.leaves_before : shape_.steps; }

 private:
  uint64_t Mix(int step, int index, int salt) const;
  bool Joins(int step, int rank, std::vector<Statement>* out) const;
  void ChangeSets(int step, std::vector<Statement>* out) const;
  void Segment(int step, int segment, int rank, std::vector<Statement>* out) const;
  void Repeats(int step, int rank, std::vector<Statement>* out) const;
  bool Active(const Tensor& tensor, int index, int step) const;
  bool InJoinWindow(int step) const;
  bool Lives(int set, int step) const;
  bool Member(int set, int rank) const;
  bool Mismatches(int step, int index) const;
  Call Collective(int step, int index, int rank, int repetition) const;
  static uint64_t Label(int step, int index, int repetition);
  static Statement Submit(Call call, int step);
  static Statement Wait(int step);

  const uint64_t seed_;
  const Shape shape_;
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_PROGRAM_H_
