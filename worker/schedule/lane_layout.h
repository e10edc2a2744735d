#ifndef FARANDOLE_WORKER_SCHEDULE_LANE_LAYOUT_H_
#define FARANDOLE_WORKER_SCHEDULE_LANE_LAYOUT_H_

#include <cstdint>
#include <vector>

namespace farandole::worker::schedule {

// A range of the operand, in bytes.
struct Extent {
  int64_t offset = 0;
  int64_t bytes = 0;
  bool operator==(const Extent& o) const { return offset == o.offset && bytes == o.bytes; }
};

// Where the blocks of a schedule lie. Large operands are cut into lanes: disjoint parts, each of which runs through
// the whole schedule by itself. Several lanes under way at a time are the pipeline: one is reduced while the next is
// in flight, and what a lane needs beside the operand is one chunk. Pure arithmetic, the same on all members.
class LaneLayout {
 public:
  // `count` elements of `element_bytes`, cut as evenly as possible into lanes, each lane into `blocks` blocks of at
  // most about `chunk_bytes`. Cuts lie between elements.
  static LaneLayout Even(int64_t count, int64_t element_bytes, int blocks, int64_t chunk_bytes);
  // Block m has byte_counts[m] bytes, one behind the other; each lane takes up to `chunk_bytes` of every block.
  static LaneLayout Ragged(const std::vector<int64_t>& byte_counts, int64_t chunk_bytes);
  // Block s * size + d is what member s sends to member d; each lane takes up to `chunk_bytes` of every block. Has what
  // one member knows: the blocks that it sends lie in its input in order of d, those that it receives in its operand in
  // order of s. Members may have different numbers of lanes, of which the last ones are empty for the others.
  static LaneLayout Pairs(const std::vector<int64_t>& send_bytes, const std::vector<int64_t>& receive_bytes,
                          int64_t chunk_bytes);

  int64_t lanes() const { return lanes_; }
  Extent Block(int64_t lane, int block) const;
  // Of consecutive blocks, which of an even layout lie one behind the other.
  Extent Blocks(int64_t lane, int first, int count) const;
  // Where the bytes of a block lie in the input of who contributes it.
  Extent Source(int64_t lane, int block) const;
  int64_t total_bytes() const;
  // Of the largest block of any lane.
  int64_t block_bytes_max() const { return block_bytes_max_; }

 private:
  LaneLayout() = default;
  void CutBlocks(int64_t chunk_bytes);
  Extent Cut(int64_t lane, int64_t start, int64_t bytes) const;

  int64_t lanes_ = 1;
  int64_t block_bytes_max_ = 0;
  // Even.
  int64_t count_ = 0;
  int64_t element_bytes_ = 0;
  int blocks_ = 0;
  // Ragged and pairs: where each block starts in the operand and what it has, and the same in the input. Of pairs by
  // the other member.
  std::vector<int64_t> starts_, bytes_, source_starts_, source_bytes_;
  bool pairs_ = false;
  int64_t total_bytes_ = 0;
  int64_t chunk_bytes_ = 0;
};

}  // namespace farandole::worker::schedule

#endif  // FARANDOLE_WORKER_SCHEDULE_LANE_LAYOUT_H_
