#ifndef FARANDOLE_TESTS_SIM_PROGRAM_SHAPE_H_
#define FARANDOLE_TESTS_SIM_PROGRAM_SHAPE_H_

#include <cstdint>
#include <vector>

#include "proto/types.h"
#include "tests/sim/random.h"

namespace farandole::sim {

// One name of a script and when it is submitted, the same at all ranks of its set.
struct Tensor {
  OpKind op = OpKind::kAllreduce;
  DataType dtype = DataType::kFloat32;
  DeviceKind device = DeviceKind::kHost;
  int set = 0;      // position in Shape::sets + 1; 0 = all ranks
  int group = -1;   // tensors of one group are dispatched together
  int segment = 0;  // see Shape::segments
  // Steps in which it is submitted: those with step % every == offset (gradient accumulation, several optimizers), by
  // chance of `percent`, outside drop_from .. drop_to-1, of evaluation or of training.
  int every = 1;
  int offset = 0;
  int percent = 100;
  int drop_from = -1;
  int drop_to = -1;
  bool evaluation = false;
  // From this step on with another shape.
  int changes_at = -1;
};

struct ScriptSet {
  std::vector<int> ranks;
  int add_at = 0;      // before this step
  int remove_at = -1;  // before this step; -1 = never
  int repeat = 1;      // its tensors are reduced so often in each step: sets have different speeds
};

// What kind of script a generation runs. Drawn from a seed, or made by hand.
struct Shape {
  Shape() = default;
  // `calm`: no rank leaves early, nothing diverges.
  Shape(Random* random, int size, bool calm);

  int size = 1;
  int steps = 1;
  // Steps that may be under way at once: a step's names are free again when the one `depth` before is answered.
  int depth = 1;
  std::vector<Tensor> tensors;
  std::vector<ScriptSet> sets;
  // What is submitted in any order within a step; all ranks take the segments in order.
  int segments = 1;
  // Ranks wait for a segment before they begin the next: all (in step), one of them (legal, not in step), or none.
  bool waits_between_segments = false;
  int waiting_rank = -1;
  // Of so many steps the last few are evaluation; 0 = none.
  int epoch_steps = 0;
  int evaluation_steps = 0;
  // Before this step all ranks join; ranks r have done joins_early[r] steps less than the others.
  int join_at = -1;
  std::vector<int> joins_early;
  int refused_while_joined = -1;  // in this set one allgather meanwhile, which has to fail
  int mismatch_percent = 0;
  // Nothing is submitted for longer than a silent agent is borne with.
  int pauses_before = -1;
  int64_t compute_us = 60000;  // greatest time between two steps
  // One rank that pauses for longer than a begun instance waits for it, in the middle of every tenth step and of
  // those that others may have joined before.
  int dawdler = -1;
  int early_leaver = -1;
  int leaves_before = 0;
  // All ranks submit the same in the same order, all of a step at once: for long runs of many.
  bool uniform = false;
  // In this step one rank submits something else than the others, and everybody waits for it.
  int diverges_at = -1;

  // Every rank does all of it, if nothing happens.
  bool stays() const { return early_leaver < 0 && diverges_at < 0; }
  bool in_step() const { return waiting_rank < 0 && diverges_at < 0; }
  // Some rank joins a step before another one. What is fused across steps may then have begun on one of them alone.
  bool joins_unevenly() const;
  // Whatever is begun in a replay is entered by all in the end, however late some of them are.
  bool enters_all() const { return in_step() && stays() && mismatch_percent == 0 && !joins_unevenly(); }
  bool has_final() const;

 private:
  void DrawTensors(Random* random);
  void DrawRegular(Random* random);
  void DrawSets(Random* random);
  void DrawTensorsOfSet(Random* random);
  void DrawEvents(Random* random);
  void DrawJoin(Random* random);
  void DrawEarlyEnd(Random* random);
  void LeaveDuringJoin(Random* random);
  void DrawDevices(Random* random);
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_PROGRAM_SHAPE_H_
