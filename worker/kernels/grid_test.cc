#include "worker/kernels/grid.h"

#include <gtest/gtest.h>

namespace farandole::worker::kernels {
namespace {

void ExpectGrid(int64_t elements, int multiprocessors, int64_t chunk, int64_t blocks) {
  const Grid grid(elements, multiprocessors);
  EXPECT_EQ(grid.chunk, chunk) << elements;
  EXPECT_EQ(grid.blocks, blocks) << elements;
}

TEST(Grid, HasSmallChunksForFewElements) {
  ExpectGrid(0, 132, 128, 0);
  ExpectGrid(1, 132, 128, 1);
  ExpectGrid(1024, 132, 128, 1);
  ExpectGrid(1025, 132, 128, 2);
}

TEST(Grid, OccupiesTheWholeDeviceBeforeChunksGrow) {
  ExpectGrid(128 * 8 * 1056, 132, 128, 1056);
  ExpectGrid(128 * 8 * 1056 + 1, 132, 129, 1048);
  ExpectGrid(10'000'000, 132, 1184, 1056);
}

TEST(Grid, IsBounded) {
  ExpectGrid(int64_t{1} << 40, 132, 4096, 1056);
  ExpectGrid(int64_t{1} << 40, 1, 4096, 8);
}

}  // namespace
}  // namespace farandole::worker::kernels
