#include "controller/batcher.h"

#include <limits>
#include <utility>

namespace farandole {
namespace {

// Saturates: shapes come from peers.
int64_t BytesOf(const Signature& signature) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  int64_t bytes = SizeOf(signature.dtype);
  for (int64_t dim : signature.shape) {
    if (__builtin_mul_overflow(bytes, dim, &bytes)) return kMax;
  }
  return bytes;
}

}  // namespace

Batcher::Batcher(uint32_t process_set, int64_t fusion_threshold_bytes)
    : process_set_(process_set), threshold_(fusion_threshold_bytes) {}

bool Batcher::Fits(const Lane& lane, const ReadyTensor& tensor) const {
  const bool alone = tensor.signature.op != OpKind::kAllreduce;
  if (alone || lane.alone) return alone == lane.alone;
  const Signature& a = lane.queue.front().tensor.signature;
  const Signature& b = tensor.signature;
  return a.dtype == b.dtype && a.reduce_op == b.reduce_op && a.prescale == b.prescale && a.postscale == b.postscale;
}

void Batcher::Add(ReadyTensor tensor) {
  Lane* lane = nullptr;
  for (Lane& l : lanes_) {
    if (Fits(l, tensor)) {
      lane = &l;
      break;
    }
  }
  if (lane == nullptr) {
    lanes_.push_back({tensor.signature.op != OpKind::kAllreduce, {}});
    lane = &lanes_.back();
  }
  lane->queue.push_back({next_sequence_++, std::move(tensor)});
}

Batcher::Lane* Batcher::FirstLane() {
  const bool hold = out_.size() > kBatchesOut;
  Lane* first = nullptr;
  for (Lane& lane : lanes_) {
    if (hold && !lane.alone) continue;
    if (first == nullptr || lane.queue.front().sequence < first->queue.front().sequence) first = &lane;
  }
  return first;
}

bool Batcher::Next(Batch* batch, std::vector<Request>* requests) {
  Lane* lane = FirstLane();
  if (lane == nullptr) return false;
  batch->process_set = process_set_;
  batch->entries.clear();
  requests->clear();
  int64_t bytes = 0;
  do {
    ReadyTensor& tensor = lane->queue.front().tensor;
    const int64_t more = BytesOf(tensor.signature);
    if (!batch->entries.empty() && (threshold_ == 0 || more > threshold_ || bytes > threshold_ - more)) break;
    bytes = more > std::numeric_limits<int64_t>::max() - bytes ? std::numeric_limits<int64_t>::max() : bytes + more;
    requests->push_back({tensor.name, std::move(tensor.signature)});
    batch->entries.push_back({std::move(tensor.name), std::move(tensor.first_dims)});
    lane->queue.pop_front();
  } while (!lane->alone && !lane->queue.empty());
  if (lane->queue.empty()) lanes_.erase(lanes_.begin() + (lane - lanes_.data()));
  return true;
}

void Batcher::Completed(uint64_t through) {
  while (!out_.empty() && out_.front() <= through) out_.pop_front();
}

}  // namespace farandole
