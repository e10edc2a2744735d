#include "tests/sim/program.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole::sim {
namespace {

// Indices of calls that are no tensors of the shape.
constexpr int kJoinIndex = 200;
constexpr int kRefusedIndex = 201;
constexpr int kDivergeIndex = 202;
constexpr int kSetIndex = 210;
constexpr int kJoinWindow = 3;
constexpr int kDawdlesEvery = 10;
constexpr int64_t kDawdlesUs = 3000000;

Shape Draw(uint64_t seed, int size, bool calm) {
  Random random(seed);
  return Shape(&random, size, calm);
}

}  // namespace

Program::Program(uint64_t seed, int size, bool calm) : seed_(seed), shape_(Draw(seed, size, calm)) {}

uint64_t Program::Mix(int step, int index, int salt) const {
  return Random(seed_ ^ (static_cast<uint64_t>(step) << 32) ^ (static_cast<uint64_t>(index) << 16) ^ salt).Next();
}

uint64_t Program::Label(int index, int repetition) {
  return (static_cast<uint64_t>(repetition) << 16) + static_cast<uint64_t>(index) + 1;
}

Statement Program::Submit(Call call) {
  Statement statement;
  statement.call = std::move(call);
  return statement;
}

Statement Program::Wait(int back) {
  Statement statement;
  statement.kind = Statement::Kind::kWait;
  statement.back = back;
  return statement;
}

Statements Program::Step(int step, int rank) const {
  if (!shape_.uniform) return std::make_shared<std::vector<Statement>>(MakeStep(step, rank));
  if (step == last_step_) return last_statements_;
  std::vector<bool> active;
  for (size_t i = 0; i < shape_.tensors.size(); ++i) {
    active.push_back(Active(shape_.tensors[i], static_cast<int>(i), step));
  }
  Statements& statements = uniform_[active];
  if (statements == nullptr) statements = std::make_shared<std::vector<Statement>>(MakeStep(step, rank));
  last_step_ = step;
  last_statements_ = statements;
  return statements;
}

std::vector<Statement> Program::MakeStep(int step, int rank) const {
  std::vector<Statement> out;
  if (Joins(step, rank, &out)) return out;
  out.push_back(Wait(shape_.depth));
  ChangeSets(step, &out);
  Statement compute;
  compute.kind = Statement::Kind::kCompute;
  out.push_back(compute);
  if (step == shape_.diverges_at) {
    Call call;
    call.request.name = rank == 0 ? "diverge.a" : "diverge.b";
    call.request.signature.op = OpKind::kAllreduce;
    call.request.signature.shape = {1};
    call.label = Label(kDivergeIndex, rank == 0 ? 0 : 1);
    out.push_back(Submit(std::move(call)));
    out.push_back(Wait(0));
  }
  for (int segment = 0; segment < shape_.segments; ++segment) {
    Segment(step, segment, rank, &out);
    const bool waits = shape_.waits_between_segments || rank == shape_.waiting_rank;
    if (waits && segment + 1 < shape_.segments) out.push_back(Wait(0));
  }
  Repeats(step, rank, &out);
  return out;
}

// True if the rank does nothing else in this step.
bool Program::Joins(int step, int rank, std::vector<Statement>* out) const {
  if (shape_.join_at < 0) return false;
  const int joins_at = shape_.join_at - shape_.joins_early[rank];
  if (step < joins_at || step > shape_.join_at) return false;
  if (step == joins_at) {
    // What it has submitted may be under way.
    if (Mix(step, kJoinIndex, rank) % 2 == 0) out->push_back(Wait(0));
    Call join;
    join.request.name = "join";
    join.request.signature.op = OpKind::kJoin;
    join.label = Label(kJoinIndex, 0) + (static_cast<uint64_t>(shape_.join_at) << kStepShift);
    out->push_back(Submit(std::move(join)));
    out->push_back(Wait(0));
  }
  return step < shape_.join_at;
}

// Removals and additions of one step are under way together.
void Program::ChangeSets(int step, std::vector<Statement>* out) const {
  bool any = false;
  for (size_t i = 0; i < shape_.sets.size(); ++i) {
    const ScriptSet& set = shape_.sets[i];
    const bool adds = set.add_at == step;
    if (!adds && set.remove_at != step) continue;
    Call call;
    call.set = static_cast<int>(i) + 1;
    call.request.name = absl::StrCat(adds ? "add.set" : "remove.set", i);
    call.request.signature.op = adds ? OpKind::kAddProcessSet : OpKind::kRemoveProcessSet;
    if (adds) call.request.signature.shape.assign(set.ranks.begin(), set.ranks.end());
    call.label = Label(kSetIndex + static_cast<int>(i), adds ? 0 : 1);
    if (!any) out->push_back(Wait(0));
    out->push_back(Submit(std::move(call)));
    any = true;
  }
  if (any) out->push_back(Wait(0));
}

void Program::Segment(int step, int segment, int rank, std::vector<Statement>* out) const {
  std::vector<Statement> calls;
  for (size_t i = 0; i < shape_.tensors.size(); ++i) {
    const Tensor& tensor = shape_.tensors[i];
    const int index = static_cast<int>(i);
    if (tensor.segment != segment || !Member(tensor.set, rank) || !Active(tensor, index, step)) continue;
    calls.push_back(Submit(Collective(step, index, rank, 0)));
  }
  if (segment == 0 && Refused(step, rank)) {
    Call call;
    call.set = shape_.refused_while_joined;
    call.request.name = "refused";
    call.request.signature.op = OpKind::kAllgather;
    call.request.signature.shape = {1, 2};
    call.label = Label(kRefusedIndex, 0);
    call.mismatches = true;
    calls.push_back(Submit(std::move(call)));
  }
  Random order(Mix(step, segment, 1000 + rank));
  for (size_t i = shape_.uniform ? 0 : calls.size(); i > 1; --i) std::swap(calls[i - 1], calls[order.Below(i)]);
  const bool dawdles = rank == shape_.dawdler && (step % kDawdlesEvery == kDawdlesEvery - 1 || InJoinWindow(step));
  for (size_t i = 0; i < calls.size(); ++i) {
    if (dawdles && i == calls.size() / 2) {
      Statement pause;
      pause.kind = Statement::Kind::kCompute;
      pause.compute_us = kDawdlesUs;
      out->push_back(std::move(pause));
    }
    out->push_back(std::move(calls[i]));
  }
}

// The collective that has to fail, as some member joins before it and another one does not.
bool Program::Refused(int step, int rank) const {
  const int set = shape_.refused_while_joined;
  if (set < 0 || step + 1 != shape_.join_at || !Member(set, rank) || !Lives(set, step)) return false;
  for (int r = 0; r < shape_.size; ++r) {
    if (shape_.joins_early[r] > 0 && Member(set, r)) return true;
  }
  return false;
}

void Program::Repeats(int step, int rank, std::vector<Statement>* out) const {
  for (size_t s = 0; s < shape_.sets.size(); ++s) {
    const int set = static_cast<int>(s) + 1;
    if (!Member(set, rank) || !Lives(set, step)) continue;
    for (int repetition = 1; repetition < shape_.sets[s].repeat; ++repetition) {
      out->push_back(Wait(0));
      for (size_t i = 0; i < shape_.tensors.size(); ++i) {
        const int index = static_cast<int>(i);
        if (shape_.tensors[i].set != set || !Active(shape_.tensors[i], index, step)) continue;
        out->push_back(Submit(Collective(step, index, rank, repetition)));
      }
    }
  }
}

bool Program::InJoinWindow(int step) const { return step < shape_.join_at && step >= shape_.join_at - kJoinWindow; }

bool Program::Lives(int set, int step) const {
  if (set == 0) return true;
  const ScriptSet& s = shape_.sets[set - 1];
  return step >= s.add_at && (s.remove_at < 0 || step < s.remove_at);
}

bool Program::Member(int set, int rank) const {
  if (set == 0) return true;
  const std::vector<int>& ranks = shape_.sets[set - 1].ranks;
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

bool Program::Active(const Tensor& tensor, int index, int step) const {
  if (InJoinWindow(step) && tensor.op != OpKind::kAllreduce) return false;
  if (!Lives(tensor.set, step)) return false;
  if (step >= tensor.drop_from && step < tensor.drop_to) return false;
  const bool evaluation =
      shape_.epoch_steps > 0 && step % shape_.epoch_steps >= shape_.epoch_steps - shape_.evaluation_steps;
  if (tensor.evaluation != evaluation || step % tensor.every != tensor.offset) return false;
  return tensor.percent >= 100 || static_cast<int>(Mix(step, index, 4) % 100) < tensor.percent;
}

bool Program::Mismatches(int step, int index) const {
  const Tensor& tensor = shape_.tensors[index];
  const size_t members = tensor.set == 0 ? shape_.size : shape_.sets[tensor.set - 1].ranks.size();
  if (members < 2 || tensor.op == OpKind::kBarrier || tensor.group >= 0 || InJoinWindow(step)) return false;
  return static_cast<int>(Mix(step, index, 1) % 100) < shape_.mismatch_percent;
}

Call Program::Collective(int step, int index, int rank, int repetition) const {
  const Tensor& tensor = shape_.tensors[index];
  Call call;
  call.set = tensor.set;
  call.label = Label(index, repetition);
  call.request.name = absl::StrCat("t", index, ".", step % shape_.depth);
  Signature& s = call.request.signature;
  s.op = tensor.op;
  if (s.op == OpKind::kBarrier) return call;
  s.dtype = tensor.dtype;
  s.device = tensor.device;
  s.shape = {1 + index, tensor.changes_at >= 0 && step >= tensor.changes_at ? 32 : 64};
  if (tensor.group >= 0) {
    s.group = absl::StrCat("g", tensor.group, ".", step % shape_.depth);
    s.group_size = static_cast<uint32_t>(std::count_if(shape_.tensors.begin(), shape_.tensors.end(),
                                                       [&](const Tensor& t) { return t.group == tensor.group; }));
  }
  if (s.op == OpKind::kAllgather) s.shape[0] = static_cast<int64_t>(Mix(step, index, 100 + rank) % 5);
  std::vector<int> everybody;
  for (int r = 0; tensor.set == 0 && r < shape_.size; ++r) everybody.push_back(r);
  const std::vector<int>& members = tensor.set == 0 ? everybody : shape_.sets[tensor.set - 1].ranks;
  if (s.op == OpKind::kBroadcast) s.root_rank = Rank(members[index % members.size()]);
  call.mismatches = Mismatches(step, index);
  if (call.mismatches && rank == members[Mix(step, index, 2) % members.size()]) {
    switch (Mix(step, index, 3) % (shape_.has_final() ? 3 : 2)) {
      case 0:
        s.dtype = DataType::kInt32;
        break;
      case 1:
        s.shape[1] = 65;
        break;
      default:
        s.device = s.device == DeviceKind::kHost ? DeviceKind::kAccelerator : DeviceKind::kHost;
    }
  }
  return call;
}

}  // namespace farandole::sim
