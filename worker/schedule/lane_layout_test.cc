#include "worker/schedule/lane_layout.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"

namespace farandole::worker::schedule {
namespace {

// Every byte belongs to exactly one block of one lane, and no block is larger than announced.
void ExpectPartition(const LaneLayout& layout, int blocks) {
  std::vector<int> owners(layout.total_bytes(), 0);
  for (int64_t lane = 0; lane < layout.lanes(); ++lane) {
    for (int block = 0; block < blocks; ++block) {
      const Extent extent = layout.Block(lane, block);
      EXPECT_LE(extent.bytes, layout.block_bytes_max());
      for (int64_t i = 0; i < extent.bytes; ++i) ++owners.at(extent.offset + i);
    }
  }
  for (size_t i = 0; i < owners.size(); ++i) ASSERT_EQ(owners[i], 1) << i;
}

TEST(LaneLayoutTest, EvenCoversEverythingOnce) {
  for (int64_t count : {0, 1, 2, 5, 16, 17, 1000}) {
    for (int64_t element : {1, 2, 8}) {
      for (int blocks : {1, 2, 3, 33}) {
        for (int64_t chunk : {1, 8, 64, 100000}) {
          const LaneLayout layout = LaneLayout::Even(count, element, blocks, chunk);
          ExpectPartition(layout, blocks);
          EXPECT_LE(layout.block_bytes_max(), std::max(chunk, element));
          for (int block = 0; block < blocks; ++block) EXPECT_EQ(layout.Block(0, block).offset % element, 0);
        }
      }
    }
  }
}

TEST(LaneLayoutTest, SmallOperandsHaveOneLane) {
  EXPECT_EQ(LaneLayout::Even(1000, 4, 2, 2000).lanes(), 1);
  EXPECT_EQ(LaneLayout::Even(1001, 4, 2, 2000).lanes(), 2);
  EXPECT_EQ(LaneLayout::Even(0, 4, 2, 2000).lanes(), 1);
}

TEST(LaneLayoutTest, RaggedCoversEverythingOnce) {
  for (int64_t chunk : {1, 3, 1000}) {
    ExpectPartition(LaneLayout::Ragged({3, 0, 10, 1, 0}, chunk), 5);
    ExpectPartition(LaneLayout::Ragged({0, 0}, chunk), 2);
  }
  EXPECT_EQ(LaneLayout::Ragged({3, 0, 10}, 4).lanes(), 3);
  EXPECT_EQ(LaneLayout::Ragged({3, 0, 10}, 4).Block(1, 0), (Extent{3, 0}));
  EXPECT_EQ(LaneLayout::Ragged({3, 0, 10}, 4).Block(2, 2), (Extent{11, 2}));
}

TEST(LaneLayoutTest, PairsHaveAPlaceForWhatComesAndOneForWhatGoes) {
  // Of member 1.
  const LaneLayout layout = LaneLayout::Pairs({4, 0, 11}, {2, 0, 8}, 4);
  EXPECT_EQ(layout.lanes(), 3);
  EXPECT_EQ(layout.total_bytes(), 10);
  EXPECT_EQ(layout.Block(0, 0 * 3 + 1), (Extent{0, 2}));
  EXPECT_EQ(layout.Block(1, 0 * 3 + 1), (Extent{2, 0}));
  EXPECT_EQ(layout.Block(1, 2 * 3 + 1), (Extent{6, 4}));
  EXPECT_EQ(layout.Block(2, 2 * 3 + 1), (Extent{10, 0}));
  EXPECT_EQ(layout.Source(0, 1 * 3 + 0), (Extent{0, 4}));
  EXPECT_EQ(layout.Source(0, 1 * 3 + 1), (Extent{4, 0}));
  EXPECT_EQ(layout.Source(1, 1 * 3 + 2), (Extent{8, 4}));
  EXPECT_EQ(layout.Source(2, 1 * 3 + 2), (Extent{12, 3}));
}

TEST(LaneLayoutTest, ConsecutiveBlocksLieOneBehindTheOther) {
  const LaneLayout layout = LaneLayout::Even(103, 4, 8, 20);
  for (int64_t lane = 0; lane < layout.lanes(); ++lane) {
    const Extent some = layout.Blocks(lane, 2, 4);
    int64_t bytes = 0;
    for (int block = 2; block < 6; ++block) bytes += layout.Block(lane, block).bytes;
    EXPECT_EQ(some, (Extent{layout.Block(lane, 2).offset, bytes}));
  }
}

// Counts beyond 2^31 elements, and beyond 2^32 bytes in every place that counts them.
TEST(LaneLayoutTest, LargeCountsOverflowNowhere) {
  const int64_t count = (int64_t{3} << 40) + 5, chunk = 256 << 10;
  for (const int64_t element : {1, 2, 8}) {
    for (const int blocks : {1, 2, 7, 64}) {
      const LaneLayout layout = LaneLayout::Even(count, element, blocks, chunk);
      EXPECT_EQ(layout.total_bytes(), count * element);
      EXPECT_LE(layout.block_bytes_max(), chunk);
      const Extent last = layout.Block(layout.lanes() - 1, blocks - 1);
      EXPECT_EQ(last.offset + last.bytes, count * element);
      for (const int64_t lane : {layout.lanes() / 3, layout.lanes() / 2}) {
        const Extent end = layout.Block(lane, blocks - 1), next = layout.Block(lane + 1, 0);
        EXPECT_EQ(end.offset + end.bytes, next.offset);
        EXPECT_GT(end.offset, int64_t{1} << 32);
      }
    }
  }
  const LaneLayout ragged = LaneLayout::Ragged({int64_t{5} << 31, 3, int64_t{7} << 31}, chunk);
  EXPECT_EQ(ragged.total_bytes(), (int64_t{12} << 31) + 3);
  EXPECT_EQ(ragged.Block(1, 2), (Extent{(int64_t{5} << 31) + 3 + chunk, chunk}));
  const LaneLayout pairs = LaneLayout::Pairs({int64_t{7} << 31, 2}, {int64_t{5} << 31, 2}, chunk);
  EXPECT_EQ(pairs.total_bytes(), (int64_t{5} << 31) + 2);
  EXPECT_EQ(pairs.Source(0, 3), (Extent{int64_t{7} << 31, 2}));
}

}  // namespace
}  // namespace farandole::worker::schedule
