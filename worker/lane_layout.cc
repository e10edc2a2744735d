#include "worker/lane_layout.h"

#include <algorithm>

namespace farandole {
namespace {

struct Range {
  int64_t first;
  int64_t count;
};

// Part `index` of `parts` nearly equal ones; the first ones have one element more.
Range Split(int64_t count, int64_t parts, int64_t index) {
  const int64_t each = count / parts;
  const int64_t more = count % parts;
  return {index * each + std::min(index, more), each + (index < more ? 1 : 0)};
}

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

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
  layout.chunk_bytes_ = chunk_bytes;
  layout.starts_.push_back(0);
  int64_t largest = 0;
  for (int64_t bytes : byte_counts) {
    layout.starts_.push_back(layout.starts_.back() + bytes);
    largest = std::max(largest, bytes);
  }
  layout.lanes_ = std::max<int64_t>(CeilDivide(largest, chunk_bytes), 1);
  layout.block_bytes_max_ = std::min(largest, chunk_bytes);
  return layout;
}

Extent LaneLayout::Block(int64_t lane, int block) const {
  if (!starts_.empty()) {
    const int64_t bytes = starts_[block + 1] - starts_[block];
    const int64_t from = std::min(lane * chunk_bytes_, bytes);
    return {starts_[block] + from, std::min(bytes - from, chunk_bytes_)};
  }
  const Range whole = Split(count_, lanes_, lane);
  const Range part = Split(whole.count, blocks_, block);
  return {(whole.first + part.first) * element_bytes_, part.count * element_bytes_};
}

int64_t LaneLayout::total_bytes() const { return starts_.empty() ? count_ * element_bytes_ : starts_.back(); }

}  // namespace farandole
