#ifndef FARANDOLE_WORKER_KERNELS_GRID_H_
#define FARANDOLE_WORKER_KERNELS_GRID_H_

#include <algorithm>
#include <cstdint>

namespace farandole::worker::kernels {

// How a device's threads share elements: in chunks, which warps take in turn.
struct Grid {
  static constexpr int kThreads = 256;  // of a block; kernels.cu is compiled for so many
  static constexpr int kWarps = kThreads / 32;
  // More than run at a time, so that all end together.
  static constexpr int64_t kBlocksPerMultiprocessor = 8;
  // Few elements are spread over many warps, since a warp takes the pieces of its chunk one by one.
  static constexpr int64_t kChunkMin = 128;
  static constexpr int64_t kChunkMax = 4096;

  Grid(int64_t elements, int multiprocessors) {
    const int64_t blocks_max = kBlocksPerMultiprocessor * multiprocessors;
    chunk = std::min(std::max(Quotient(elements, blocks_max * kWarps), kChunkMin), kChunkMax);
    blocks = std::min(Quotient(elements, chunk * kWarps), blocks_max);
  }

  int64_t chunk;   // elements
  int64_t blocks;  // at least 1, unless there are no elements

 private:
  // Rounded up.
  static int64_t Quotient(int64_t a, int64_t b) { return (a + b - 1) / b; }
};

}  // namespace farandole::worker::kernels

#endif  // FARANDOLE_WORKER_KERNELS_GRID_H_
