#include "tests/sim/program_shape.h"

#include <algorithm>

namespace farandole::sim {
namespace {

// What scripts may use.
constexpr bool kSets = true;
constexpr bool kJoin = true;
constexpr bool kGroups = true;
constexpr bool kDivergence = true;
constexpr bool kDevices = true;

OpKind AnyOp(Random* random) {
  const uint64_t dice = random->Below(10);
  return dice < 6    ? OpKind::kAllreduce
         : dice == 6 ? OpKind::kAllgather
         : dice < 9  ? OpKind::kBroadcast
                     : OpKind::kBarrier;
}

}  // namespace

Shape::Shape(Random* random, int size, bool calm) : size(size) {
  steps = static_cast<int>(random->Skewed(1, 40));
  depth = random->Percent(40) ? 2 : 1;
  compute_us = random->Percent(30) ? 2000 : 60000;
  if (random->Percent(60)) {
    DrawRegular(random);
  } else {
    DrawTensors(random);
  }
  if (kSets && size > 1 && random->Percent(30)) DrawSets(random);
  if (kJoin && random->Percent(sets.empty() ? 25 : 40)) DrawJoin(random);
  if (random->Percent(4)) pauses_before = static_cast<int>(random->Below(steps));
  if (!calm && size > 1) DrawEarlyEnd(random);
  if (size > 1 && random->Percent(join_at < 0 ? 15 : 40)) dawdler = static_cast<int>(random->Below(size));
  // What cannot be withdrawn may end the generation of others.
  if (kDevices && (!calm || enters_all())) DrawDevices(random);
}

bool Shape::joins_unevenly() const {
  if (join_at < 0 || joins_early.empty()) return false;
  const auto [least, most] = std::minmax_element(joins_early.begin(), joins_early.end());
  return *least != *most;
}

bool Shape::has_final() const {
  return std::any_of(tensors.begin(), tensors.end(), [](const Tensor& t) { return t.device != DeviceKind::kHost; });
}

// All on accelerators, or some; groups may have tensors of both kinds.
void Shape::DrawDevices(Random* random) {
  const int percent = random->Percent(40) ? 0 : random->Percent(25) ? 100 : static_cast<int>(random->Between(20, 80));
  for (Tensor& tensor : tensors) {
    if (random->Percent(percent)) tensor.device = DeviceKind::kAccelerator;
  }
}

// A few collectives of all kinds, and ranks that disagree now and then.
void Shape::DrawTensors(Random* random) {
  if (random->Percent(40)) mismatch_percent = static_cast<int>(random->Between(2, 20));
  const int count = static_cast<int>(random->Between(1, 8));
  for (int i = 0; i < count; ++i) {
    Tensor tensor;
    tensor.op = AnyOp(random);
    if (i % 3 == 2) tensor.dtype = DataType::kFloat64;
    tensors.push_back(tensor);
  }
  if (random->Percent(30)) {
    segments = 2;
    for (Tensor& tensor : tensors) tensor.segment = static_cast<int>(random->Below(2));
    waits_between_segments = random->Percent(50);
    if (!waits_between_segments && size > 1) waiting_rank = static_cast<int>(random->Below(size));
  }
}

// Training that repeats itself for long enough to be replayed, with something else now and then.
void Shape::DrawRegular(Random* random) {
  steps = static_cast<int>(random->Between(12, 70));
  const int count = static_cast<int>(random->Between(1, 6));
  const bool groups = kGroups && random->Percent(25);
  for (int i = 0; i < count; ++i) {
    Tensor tensor;
    if (i % 3 == 2) tensor.dtype = DataType::kFloat64;
    if (groups && i < 4) tensor.group = i / 2;
    tensors.push_back(tensor);
  }
  if (groups && count % 2 == 1 && count < 4) tensors.back().group = -1;
  if (random->Percent(25)) {
    // Accumulation, or optimizers that take turns.
    const int every = static_cast<int>(random->Between(2, 4));
    const bool turns = random->Percent(50);
    for (Tensor& tensor : tensors) {
      if (tensor.group >= 0) continue;
      tensor.every = every;
      tensor.offset = turns ? static_cast<int>(random->Below(every)) : every - 1;
    }
  }
  if (random->Percent(25)) {
    segments = 2;
    for (size_t i = 0; i < tensors.size(); ++i) tensors[i].segment = static_cast<int>(i % 4 / 2);
    waits_between_segments = random->Percent(40);
    if (!waits_between_segments && size > 1) waiting_rank = static_cast<int>(random->Below(size));
  }
  DrawEvents(random);
}

void Shape::DrawEvents(Random* random) {
  if (random->Percent(25)) mismatch_percent = 1;
  if (random->Percent(20)) {
    epoch_steps = static_cast<int>(random->Between(10, 25));
    evaluation_steps = static_cast<int>(random->Between(1, 4));
    Tensor metric;
    metric.evaluation = true;
    tensors.push_back(metric);
  }
  for (Tensor& tensor : tensors) {
    if (tensor.group >= 0 || tensor.evaluation || !random->Percent(12)) continue;
    tensor.drop_from = static_cast<int>(random->Below(steps));
    tensor.drop_to = random->Percent(70) ? tensor.drop_from + static_cast<int>(random->Between(1, 8)) : steps;
  }
  for (Tensor& tensor : tensors) {
    if (random->Percent(10)) tensor.changes_at = static_cast<int>(random->Below(steps));
  }
  if (random->Percent(50)) {
    Tensor rare;
    rare.op = AnyOp(random);
    rare.percent = static_cast<int>(random->Between(2, 15));
    tensors.push_back(rare);
  }
}

void Shape::DrawSets(Random* random) {
  const int count = static_cast<int>(random->Between(1, 3));
  depth = 1;
  for (int i = 0; i < count; ++i) {
    ScriptSet set;
    const uint64_t kind = random->Below(3);
    for (int r = 0; r < size; ++r) {
      // Any subset, neighbours (overlapping), or one of several disjoint parts.
      const bool in = kind == 0 ? random->Percent(60) : kind == 1 ? r / 2 == i || (r + 1) / 2 == i : r % count == i;
      if (in) set.ranks.push_back(r);
    }
    if (set.ranks.empty() || static_cast<int>(set.ranks.size()) == size) set.ranks = {i % size};
    // The same ranks twice would be one set.
    const bool known =
        std::any_of(sets.begin(), sets.end(), [&](const ScriptSet& other) { return other.ranks == set.ranks; });
    if (known) continue;
    if (random->Percent(40)) {
      set.add_at = static_cast<int>(random->Below(steps));
      if (!sets.empty() && sets.back().remove_at >= 0 && random->Percent(50)) set.add_at = sets.back().remove_at;
      if (random->Percent(60)) set.remove_at = set.add_at + static_cast<int>(random->Between(1, steps));
    }
    if (random->Percent(40)) set.repeat = static_cast<int>(random->Between(2, 5));
    sets.push_back(set);
    DrawTensorsOfSet(random);
  }
  if (random->Percent(30)) {
    // Nothing holds the sets together.
    for (Tensor& tensor : tensors) {
      if (tensor.set == 0) tensor.percent = std::min(tensor.percent, 5);
      if (tensor.set == 0) tensor.group = -1;
    }
  }
}

// Some have so many that what is ready waits, and is fused, while batches are out.
void Shape::DrawTensorsOfSet(Random* random) {
  const bool many = random->Percent(50);
  const bool group = kGroups && random->Percent(20);
  const int own = static_cast<int>(many ? random->Between(4, 8) : random->Between(1, 2));
  for (int t = 0; t < own; ++t) {
    Tensor tensor;
    tensor.set = static_cast<int>(sets.size());
    if (group && t < 2) {
      tensor.group = 100 + tensor.set;
    } else {
      if (!random->Percent(80)) tensor.op = AnyOp(random);
      tensor.segment = static_cast<int>(random->Below(segments));
    }
    tensors.push_back(tensor);
  }
}

// The leaver ends the joins of the others, whose own process set goes on.
void Shape::LeaveDuringJoin(Random* random) {
  leaves_before = join_at - static_cast<int>(random->Below(3));
  joins_early[early_leaver] = 0;
  std::vector<int> others;
  for (int r = 0; r < size; ++r) {
    if (r != early_leaver) others.push_back(r);
  }
  const bool known = std::any_of(sets.begin(), sets.end(), [&](const ScriptSet& set) { return set.ranks == others; });
  if (known || sets.empty()) return;
  sets[0].ranks = others;
  sets[0].remove_at = -1;
}

void Shape::DrawEarlyEnd(Random* random) {
  const bool ends_join = join_at >= 0 && random->Percent(sets.empty() ? 20 : 50);
  if (ends_join || random->Percent(20)) {
    early_leaver = static_cast<int>(random->Below(size));
    leaves_before = static_cast<int>(random->Below(steps));
    if (ends_join) LeaveDuringJoin(random);
  } else if (kDivergence && random->Percent(10)) {
    diverges_at = static_cast<int>(random->Below(steps));
  }
}

void Shape::DrawJoin(Random* random) {
  if (steps < 4) return;
  join_at = static_cast<int>(random->Between(3, steps - 1));
  for (int r = 0; r < size; ++r) joins_early.push_back(static_cast<int>(random->Below(4)));
  if (random->Percent(20)) refused_while_joined = static_cast<int>(random->Below(sets.size() + 1));
  // A change of sets wants all ranks, and none that has joined.
  for (ScriptSet& set : sets) {
    if (set.add_at < join_at && set.add_at >= join_at - 3) set.add_at = join_at;
    if (set.remove_at < join_at && set.remove_at >= join_at - 3) set.remove_at = join_at + 1;
  }
}

}  // namespace farandole::sim
