#include "tests/sim/program.h"

#include "absl/strings/str_cat.h"

namespace farandole::sim {

Program::Program(uint64_t seed, int size, bool calm) : seed_(seed), size_(size) {
  Random random(seed);
  steps_ = static_cast<int>(random.Skewed(1, 40));
  depth_ = random.Percent(40) ? 2 : 1;
  if (random.Percent(40)) mismatch_percent_ = static_cast<int>(random.Between(2, 20));
  if (random.Percent(4)) pauses_before_ = static_cast<int>(random.Below(steps_));
  const int collectives = static_cast<int>(random.Between(1, 8));
  for (int i = 0; i < collectives; ++i) {
    const uint64_t dice = random.Below(10);
    kinds_.push_back(dice < 6    ? OpKind::kAllreduce
                     : dice == 6 ? OpKind::kAllgather
                     : dice < 9  ? OpKind::kBroadcast
                                 : OpKind::kBarrier);
  }
  if (calm || size < 2 || !random.Percent(25)) return;
  early_leaver_ = static_cast<int>(random.Below(size));
  leaves_before_ = static_cast<int>(random.Below(steps_));
}

uint64_t Program::Mix(int step, int index, int salt) const {
  return Random(seed_ ^ (static_cast<uint64_t>(step) << 32) ^ (static_cast<uint64_t>(index) << 16) ^ salt).Next();
}

bool Program::Mismatches(int step, int index) const {
  if (size_ < 2 || kinds_[index] == OpKind::kBarrier) return false;
  return static_cast<int>(Mix(step, index, 1) % 100) < mismatch_percent_;
}

Request Program::Collective(int step, int index, int rank) const {
  Request request;
  request.name = absl::StrCat("t", index, ".", step % depth_);
  Signature& s = request.signature;
  s.op = kinds_[index];
  if (s.op == OpKind::kBarrier) return request;
  s.dtype = index % 3 == 2 ? DataType::kFloat64 : DataType::kFloat32;
  s.shape = {1 + index, 64};
  if (s.op == OpKind::kAllgather) s.shape[0] = static_cast<int64_t>(Mix(step, index, 100 + rank) % 5);
  if (s.op == OpKind::kBroadcast) s.root_rank = Rank(index % size_);
  if (Mismatches(step, index) && rank == static_cast<int>(Mix(step, index, 2) % size_)) {
    if (Mix(step, index, 3) % 2 == 0) {
      s.dtype = DataType::kInt32;
    } else {
      s.shape[1] = 65;
    }
  }
  return request;
}

}  // namespace farandole::sim
