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
  layout.bytes_ = byte_counts;
  layout.source_starts_.assign(byte_counts.size(), 0);
  for (int64_t bytes : byte_counts) {
    layout.starts_.push_back(layout.total_bytes_);
    layout.total_bytes_ += bytes;
  }
  layout.CutBlocks(chunk_bytes);
  return layout;
}

LaneLayout LaneLayout::Matrix(const std::vector<int64_t>& byte_matrix, int size, int position, int64_t chunk_bytes) {
  LaneLayout layout;
  layout.bytes_ = byte_matrix;
  layout.starts_.assign(byte_matrix.size(), 0);
  layout.source_starts_.assign(byte_matrix.size(), 0);
  int64_t sent = 0;
  for (int peer = 0; peer < size; ++peer) {
    const int from = peer * size + position, to = position * size + peer;
    layout.starts_[from] = layout.total_bytes_;
    layout.total_bytes_ += byte_matrix[from];
    layout.source_starts_[to] = sent;
    sent += byte_matrix[to];
  }
  layout.CutBlocks(chunk_bytes);
  return layout;
}

void LaneLayout::CutBlocks(int64_t chunk_bytes) {
  chunk_bytes_ = chunk_bytes;
  int64_t largest = 0;
  for (int64_t bytes : bytes_) largest = std::max(largest, bytes);
  lanes_ = std::max<int64_t>(CeilDivide(largest, chunk_bytes), 1);
  block_bytes_max_ = std::min(largest, chunk_bytes);
}

Extent LaneLayout::Cut(int64_t lane, int block, int64_t start) const {
  const int64_t from = std::min(lane * chunk_bytes_, bytes_[block]);
  return {start + from, std::min(bytes_[block] - from, chunk_bytes_)};
}

Extent LaneLayout::Block(int64_t lane, int block) const {
  if (!bytes_.empty()) return Cut(lane, block, starts_[block]);
  const Range whole = Split(count_, lanes_, lane);
  const Range part = Split(whole.count, blocks_, block);
  return {(whole.first + part.first) * element_bytes_, part.count * element_bytes_};
}

Extent LaneLayout::Blocks(int64_t lane, int first, int count) const {
  const Extent begin = Block(lane, first);
  if (count == 1) return begin;
  const Extent last = Block(lane, first + count - 1);
  return {begin.offset, last.offset + last.bytes - begin.offset};
}

Extent LaneLayout::Source(int64_t lane, int block) const { return Cut(lane, block, source_starts_[block]); }

int64_t LaneLayout::total_bytes() const { return bytes_.empty() ? count_ * element_bytes_ : total_bytes_; }

}  // namespace farandole
