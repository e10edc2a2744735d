#include "worker/schedule/lane_layout.h"

#include <algorithm>

#include "worker/collective/share.h"

namespace farandole::worker::schedule {
namespace {

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Where each begins if they lie one behind the other; `total`: where the last one ends.
std::vector<int64_t> StartsOf(const std::vector<int64_t>& bytes, int64_t* total) {
  std::vector<int64_t> starts;
  *total = 0;
  for (int64_t one : bytes) {
    starts.push_back(*total);
    *total += one;
  }
  return starts;
}

}  // namespace

LaneLayout LaneLayout::Even(int64_t count, int64_t element_bytes, int blocks, int64_t chunk_bytes) {
  LaneLayout layout;
  layout.count_ = count;
  layout.element_bytes_ = element_bytes;
  layout.blocks_ = blocks;
  const int64_t lane_elements = blocks * std::max<int64_t>(chunk_bytes / element_bytes, 1);
  layout.lanes_ = std::max<int64_t>(CeilDivide(count, lane_elements), 1);
  layout.block_bytes_max_ = CeilDivide(CeilDivide(count, layout.lanes_), blocks) * element_bytes;
  return layout;
}

LaneLayout LaneLayout::Ragged(const std::vector<int64_t>& byte_counts, int64_t chunk_bytes) {
  LaneLayout layout;
  layout.bytes_ = layout.source_bytes_ = byte_counts;
  layout.source_starts_.assign(byte_counts.size(), 0);
  layout.starts_ = StartsOf(byte_counts, &layout.total_bytes_);
  layout.CutBlocks(chunk_bytes);
  return layout;
}

LaneLayout LaneLayout::Pairs(const std::vector<int64_t>& send_bytes, const std::vector<int64_t>& receive_bytes,
                             int64_t chunk_bytes) {
  LaneLayout layout;
  int64_t sent = 0;
  layout.pairs_ = true;
  layout.bytes_ = receive_bytes;
  layout.source_bytes_ = send_bytes;
  layout.starts_ = StartsOf(receive_bytes, &layout.total_bytes_);
  layout.source_starts_ = StartsOf(send_bytes, &sent);
  layout.CutBlocks(chunk_bytes);
  return layout;
}

void LaneLayout::CutBlocks(int64_t chunk_bytes) {
  chunk_bytes_ = chunk_bytes;
  int64_t largest = 0;
  for (int64_t bytes : bytes_) largest = std::max(largest, bytes);
  for (int64_t bytes : source_bytes_) largest = std::max(largest, bytes);
  lanes_ = std::max<int64_t>(CeilDivide(largest, chunk_bytes), 1);
  block_bytes_max_ = std::min(largest, chunk_bytes);
}

Extent LaneLayout::Cut(int64_t lane, int64_t start, int64_t bytes) const {
  const int64_t from = std::min(lane * chunk_bytes_, bytes);
  return {start + from, std::min(bytes - from, chunk_bytes_)};
}

Extent LaneLayout::Block(int64_t lane, int block) const {
  if (!bytes_.empty()) {
    const size_t at = pairs_ ? block / bytes_.size() : block;
    return Cut(lane, starts_[at], bytes_[at]);
  }
  const collective::Share whole = collective::EvenShare(count_, lanes_, lane);
  const collective::Share part = collective::EvenShare(whole.count, blocks_, block);
  return {(whole.begin + part.begin) * element_bytes_, part.count * element_bytes_};
}

Extent LaneLayout::Blocks(int64_t lane, int first, int count) const {
  const Extent begin = Block(lane, first);
  if (count == 1) return begin;
  const Extent last = Block(lane, first + count - 1);
  return {begin.offset, last.offset + last.bytes - begin.offset};
}

Extent LaneLayout::Source(int64_t lane, int block) const {
  const size_t at = pairs_ ? block % source_bytes_.size() : block;
  return Cut(lane, source_starts_[at], source_bytes_[at]);
}

int64_t LaneLayout::total_bytes() const { return bytes_.empty() ? count_ * element_bytes_ : total_bytes_; }

}  // namespace farandole::worker::schedule
