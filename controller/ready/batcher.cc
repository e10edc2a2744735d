#include "controller/ready/batcher.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace farandole::controller::ready {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

// Saturate: shapes come from peers.
int64_t Plus(int64_t a, int64_t b) { return b > kMax - a ? kMax : a + b; }

int64_t BytesOf(const Signature& signature) {
  int64_t bytes = SizeOf(signature.dtype);
  for (int64_t dim : signature.shape) {
    if (__builtin_mul_overflow(bytes, dim, &bytes)) return kMax;
  }
  return bytes;
}

// Allreduces that can be one.
bool Match(const Signature& a, const Signature& b) {
  return a.op == b.op && a.dtype == b.dtype && a.reduce_op == b.reduce_op && a.prescale == b.prescale &&
         a.postscale == b.postscale && a.device == b.device;
}

}  // namespace

bool Batcher::Alone(const std::vector<ReadyTensor>& unit) const {
  const Signature& first = unit[0].signature;
  return rules_.deterministic || first.op != OpKind::kAllreduce || first.reduce_op == ReduceOp::kAdasum ||
         std::any_of(unit.begin(), unit.end(), [&](const ReadyTensor& t) { return !Match(first, t.signature); });
}

Batcher::Lane* Batcher::LaneFor(uint32_t process_set, const std::vector<ReadyTensor>& unit) {
  const bool alone = Alone(unit);
  for (Lane& lane : lanes_) {
    if (lane.process_set != process_set || lane.alone != alone) continue;
    if (alone || Match(lane.queue.front().tensors[0].signature, unit[0].signature)) return &lane;
  }
  lanes_.push_back({process_set, alone, false, TimePoint(), {}});
  return &lanes_.back();
}

void Batcher::Add(uint32_t process_set, std::vector<ReadyTensor> unit, TimePoint now) {
  Lane* lane = LaneFor(process_set, unit);
  if (lane->queue.empty()) {
    lane->window_open = !lane->alone && rules_.window_ms > 0;
    lane->since = now;
  }
  Unit added{next_unit_++, std::numeric_limits<int32_t>::min(), 0, std::move(unit)};
  for (const ReadyTensor& tensor : added.tensors) {
    added.priority = std::max(added.priority, tensor.signature.priority);
    added.bytes = Plus(added.bytes, BytesOf(tensor.signature));
  }
  const auto before = std::upper_bound(lane->queue.begin(), lane->queue.end(), added.priority,
                                       [](int32_t priority, const Unit& queued) { return priority > queued.priority; });
  lane->queue.insert(before, std::move(added));
}

bool Batcher::Fills(const Lane& lane) const {
  int64_t bytes = 0;
  for (const Unit& unit : lane.queue) {
    bytes = Plus(bytes, unit.bytes);
    if (bytes >= rules_.fusion_threshold_bytes) return true;
  }
  return false;
}

bool Batcher::MayGoOut(const Lane& lane) const {
  if (lane.alone) return true;
  const bool on_host = lane.queue.front().tensors[0].signature.device == DeviceKind::kHost;
  const auto out = out_.find(lane.process_set);
  if (out != out_.end() && out->second.size() > (on_host ? kBatchesOut : kAcceleratorBatchesOut)) return false;
  return !lane.window_open || Fills(lane);
}

Batcher::Lane* Batcher::FirstLane(const std::function<bool(uint32_t)>& held) {
  Lane* first = nullptr;
  for (Lane& lane : lanes_) {
    if (held(lane.process_set) || !MayGoOut(lane)) continue;
    const Unit& unit = lane.queue.front();
    const auto rank = [](const Unit& u) { return std::make_pair(-int64_t{u.priority}, u.number); };
    if (first == nullptr || rank(unit) < rank(first->queue.front())) first = &lane;
  }
  return first;
}

bool Batcher::Next(TimePoint now, const std::function<bool(uint32_t)>& held, uint32_t* process_set,
                   std::vector<ReadyTensor>* batch) {
  Tick(now);
  Lane* lane = FirstLane(held);
  if (lane == nullptr) return false;
  *process_set = lane->process_set;
  batch->clear();
  const int64_t threshold = rules_.fusion_threshold_bytes;
  int64_t bytes = 0;
  do {
    Unit& unit = lane->queue.front();
    if (!batch->empty() && (threshold == 0 || unit.bytes > threshold || bytes > threshold - unit.bytes)) break;
    bytes = Plus(bytes, unit.bytes);
    for (ReadyTensor& tensor : unit.tensors) batch->push_back(std::move(tensor));
    lane->queue.pop_front();
  } while (!lane->alone && !lane->queue.empty());
  // What did not fit has waited long enough.
  lane->window_open = false;
  if (lane->queue.empty()) lanes_.erase(lanes_.begin() + (lane - lanes_.data()));
  return true;
}

void Batcher::Completed(uint32_t process_set, uint64_t through) {
  const auto out = out_.find(process_set);
  if (out == out_.end()) return;
  while (!out->second.empty() && out->second.front() <= through) out->second.pop_front();
  if (out->second.empty()) out_.erase(out);
}

void Batcher::Tick(TimePoint now) {
  for (Lane& lane : lanes_) {
    if (lane.window_open && lane.since.PlusMs(rules_.window_ms) <= now) lane.window_open = false;
  }
}

TimePoint Batcher::NextDeadline() const {
  TimePoint next = TimePoint::Infinite();
  for (const Lane& lane : lanes_) {
    if (lane.window_open) next = std::min(next, lane.since.PlusMs(rules_.window_ms));
  }
  return next;
}

void Batcher::Drop(const std::function<bool(uint32_t)>& which) {
  lanes_.erase(std::remove_if(lanes_.begin(), lanes_.end(), [&](const Lane& lane) { return which(lane.process_set); }),
               lanes_.end());
}

std::vector<OpenWait> Batcher::Waits(size_t max) const {
  std::vector<OpenWait> waits;
  for (const Lane& lane : lanes_) {
    for (const Unit& unit : lane.queue) {
      for (const ReadyTensor& tensor : unit.tensors) {
        if (waits.size() == max) return waits;
        OpenWait wait;
        wait.process_set = lane.process_set;
        wait.name = tensor.name;
        wait.since = lane.since;
        waits.push_back(std::move(wait));
      }
    }
  }
  return waits;
}

bool Batcher::Empty(uint32_t process_set) const {
  return std::none_of(lanes_.begin(), lanes_.end(), [&](const Lane& lane) { return lane.process_set == process_set; });
}

bool Batcher::AnyBefore(uint64_t number, uint32_t process_set) const {
  return std::any_of(lanes_.begin(), lanes_.end(), [&](const Lane& lane) {
    return lane.process_set == process_set &&
           std::any_of(lane.queue.begin(), lane.queue.end(), [&](const Unit& unit) { return unit.number < number; });
  });
}

}  // namespace farandole::controller::ready
