#include "tests/bench/socket_ring.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace farandole::bench {
namespace {

// More than the kernel keeps between two ends, so that nobody can finish before others have begun.
TEST(SocketRingTest, CarriesWhatEachHasToTheNext) {
  constexpr int64_t kBytes = (8 << 20) + 3;
  for (const int size : {2, 4}) {
    const SocketRing ring(size);
    std::vector<std::vector<char>> received(size, std::vector<char>(kBytes));
    std::vector<char> ok(size);
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < size; ++rank) {
      ranks.emplace_back([&, rank] {
        const std::vector<char> own(kBytes, static_cast<char>('a' + rank));
        ok[rank] = ring.Move(rank, own.data(), received[rank].data(), kBytes, 128 << 10);
      });
    }
    for (std::thread& rank : ranks) rank.join();
    for (int rank = 0; rank < size; ++rank) {
      EXPECT_TRUE(ok[rank]) << rank;
      const std::vector<char> expected(kBytes, static_cast<char>('a' + (rank + size - 1) % size));
      EXPECT_TRUE(received[rank] == expected) << rank << " of " << size;
    }
  }
}

}  // namespace
}  // namespace farandole::bench
