#include "controller/replay/detector.h"

#include <algorithm>

#include "proto/rules/period_digest.h"

namespace farandole::controller::replay {
namespace {

constexpr uint32_t kRunMin = 3;
constexpr size_t kBoundariesMax = 3 * Detector::kPeriodBatchesMax + 1;
constexpr size_t kSeenMax = 9;
constexpr size_t kSignaturesMax = 16;
// Names that were dispatched; far above what a script has.
constexpr size_t kNamesMax = 65536;

// Spreads the bits (the finalizer of SplitMix64, public domain; Steele, Lea, Flood).
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

uint64_t ValueOf(uint32_t process_set, const Request& request) { return Mix(Digest({{{process_set, {request}}}})); }

}  // namespace

bool Detector::Replayable(const Request& request) {
  return request.signature.op == OpKind::kAllreduce || request.signature.op == OpKind::kReducescatter;
}

uint64_t Detector::DigestOf(const Period& period) {
  uint64_t sum = 0;
  for (const PeriodBatch& batch : period.batches) {
    for (const Request& request : batch.requests) sum += ValueOf(batch.process_set, request);
  }
  return sum;
}

std::shared_ptr<Detector::Known> Detector::Intern(Request request) {
  auto& versions = known_[{request.signature.process_set, request.name}];
  for (const auto& known : versions) {
    if (known->request.signature == request.signature) return known;
  }
  if (versions.size() == kSignaturesMax) versions.erase(versions.begin());
  auto known = std::make_shared<Known>();
  known->value = ValueOf(request.signature.process_set, request);
  known->request = std::move(request);
  versions.push_back(known);
  return known;
}

const uint64_t* Detector::PositionOf(uint64_t sum) const {
  const auto it = by_sum_.find(sum);
  return it == by_sum_.end() ? nullptr : &it->second;
}

void Detector::Interrupted() {
  if (known_.size() > kNamesMax) known_.clear();
  base_ += boundaries_.size();
  boundaries_.clear();
  boundaries_.emplace_back();
  by_sum_.clear();
  by_sum_[0] = base_;
}

void Detector::DropOldest() {
  const auto it = by_sum_.find(boundaries_.front().sum);
  if (it != by_sum_.end() && it->second == base_) by_sum_.erase(it);
  boundaries_.pop_front();
  ++base_;
}

void Detector::Dispatched(PeriodBatch batch) {
  if (known_.size() > kNamesMax || !std::all_of(batch.requests.begin(), batch.requests.end(), Replayable)) {
    Interrupted();
    return;
  }
  const uint64_t position = base_ + boundaries_.size();
  Boundary boundary;
  boundary.sum = boundaries_.back().sum;
  boundary.process_set = batch.process_set;
  boundary.batch.reserve(batch.requests.size());
  for (Request& request : batch.requests) {
    auto known = Intern(std::move(request));
    boundary.sum += known->value;
    known->seen.push_back(position);
    if (known->seen.size() > kSeenMax) known->seen.pop_front();
    boundary.batch.push_back(std::move(known));
  }
  if (!boundary.batch.empty()) FindRun(position, &boundary);
  by_sum_[boundary.sum] = position;
  boundaries_.push_back(std::move(boundary));
  if (boundaries_.size() > kBoundariesMax) DropOldest();
}

// Looks for the smallest period that ends at `boundary`, which stands behind all others.
void Detector::FindRun(uint64_t position, Boundary* boundary) const {
  const std::deque<uint64_t>& seen = boundary->batch.front()->seen;
  if (seen.size() < kRunMin) return;
  const uint64_t lowest = std::max(seen.front(), base_);
  for (uint64_t k = position; k-- > lowest && position - k <= kPeriodBatchesMax;) {
    const uint64_t digest = boundary->sum - at(k).sum;
    uint32_t run = 0;
    if (at(k).digest == digest && at(k).run > 0) {
      run = at(k).run + 1;
    } else if (const uint64_t* j = PositionOf(at(k).sum - digest)) {
      if (*j < k && PositionOf(at(*j).sum - digest) != nullptr) run = kRunMin;
    }
    if (run == 0) continue;
    boundary->digest = digest;
    boundary->run = run;
    return;
  }
}

absl::optional<Detector::Found> Detector::Find(const BackOff& back_off) const {
  const Boundary& last = boundaries_.back();
  Found found;
  uint32_t run = last.run;
  if (run > 0 && run >= back_off.Need(last.digest)) {
    found.digest = last.digest;
  } else {
    for (uint64_t digest : back_off.trusted()) {
      if (last.batch.empty() || PositionOf(last.sum - digest) == nullptr) continue;
      found.digest = digest;
      run = 1;
    }
  }
  if (found.digest == 0) return absl::nullopt;
  // The repetition with the fewest batches lies between `from` and `to`.
  uint64_t from = 0, to = 0, end = base_ + boundaries_.size() - 1;
  for (uint32_t i = 0; i < std::min(run, kRunMin); ++i) {
    const uint64_t* begin = PositionOf(at(end).sum - found.digest);
    if (begin == nullptr || *begin >= end) break;
    if (to == 0 || end - *begin < to - from) {
      from = *begin;
      to = end;
    }
    end = *begin;
  }
  if (to == 0 || to - from > kPeriodBatchesMax) return absl::nullopt;
  for (uint64_t position = from + 1; position <= to; ++position) {
    PeriodBatch batch;
    batch.process_set = at(position).process_set;
    for (const auto& known : at(position).batch) batch.requests.push_back(known->request);
    found.period.batches.push_back(std::move(batch));
  }
  return found;
}

}  // namespace farandole::controller::replay
