#include "worker/lane_layout.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"

namespace farandole {
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

}  // namespace
}  // namespace farandole
