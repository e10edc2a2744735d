#ifndef FARANDOLE_TESTS_SIM_PROGRAM_H_
#define FARANDOLE_TESTS_SIM_PROGRAM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "proto/types.h"
#include "tests/sim/program_shape.h"

namespace farandole::sim {

// One call of a script.
struct Call {
  Request request;
  int set = 0;  // of the script; whoever submits it knows the id
  // Equal for the calls of all ranks that belong together, and for no others: of the step, or with a step of its own.
  uint64_t label = 0;
  bool mismatches = false;
};

struct Statement {
  // kWait: until everything submitted in the step `back` before this one, and earlier, is answered.
  enum class Kind : uint8_t { kSubmit, kWait, kCompute };
  Kind kind = Kind::kSubmit;
  Call call;
  int back = 0;
  int64_t compute_us = 0;  // 0: as the shape has it
};
using Statements = std::shared_ptr<const std::vector<Statement>>;

// What the script does in one generation at each rank. Legal, but for the collectives in which some rank differs, which
// all have to hear of, and for divergence. A pure function of seed, step and rank.
class Program {
 public:
  Program(uint64_t seed, int size, bool calm);
  Program(uint64_t seed, Shape shape) : seed_(seed), shape_(std::move(shape)) {}

  const Shape& shape() const { return shape_; }
  int steps() const { return shape_.steps; }
  Statements Step(int step, int rank) const;
  static uint64_t LabelIn(int step, const Call& call) {
    return call.label >> kStepShift != 0 ? call.label : call.label + (static_cast<uint64_t>(step) << kStepShift);
  }
  // Before this step the rank calls shutdown; steps() if it stays to the end.
  int LastStep(int rank) const { return rank == shape_.early_leaver ? shape_.leaves_before : shape_.steps; }

 private:
  static constexpr int kStepShift = 24;

  std::vector<Statement> MakeStep(int step, int rank) const;
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
  bool Refused(int step, int rank) const;
  Call Collective(int step, int index, int rank, int repetition) const;
  static uint64_t Label(int index, int repetition);
  static Statement Submit(Call call);
  static Statement Wait(int back);

  const uint64_t seed_;
  const Shape shape_;
  mutable std::map<std::vector<bool>, Statements> uniform_;  // by which tensors are submitted
  mutable int last_step_ = -1;                               // uniform: the same for all ranks
  mutable Statements last_statements_;
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_PROGRAM_H_
