#ifndef FARANDOLE_TESTS_BENCH_MEASURED_BLOCKS_H_
#define FARANDOLE_TESTS_BENCH_MEASURED_BLOCKS_H_

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "perf/data/rank_page.h"
#include "tests/bench/driver_link.h"
#include "tests/bench/pattern.h"

namespace farandole::bench {

// For the barriers before a block.
inline int LooksOf(int ranks) { return ranks <= sysconf(_SC_NPROCESSORS_ONLN) ? 20000 : 0; }

// From one operand of a block to the next: no two in one cache line.
inline int64_t StrideOf(int64_t bytes) { return std::max<int64_t>(64, bytes); }
inline int64_t BlockBytes(const Command& command) { return StrideOf(command.bytes) * command.calls; }

// Seconds of a call in each block. `operands` has room for BlockBytes(). Every block: all operands are written anew,
// the ranks meet, `call(operand)` runs once for each, and every cell of every result is checked.
template <typename Call>
std::vector<double> MeasureBlocks(const Command& command, perf::data::RankPage* page, DriverLink* link, char* operands,
                                  Call call) {
  static int64_t number = 0;  // the same on all ranks
  const Pattern pattern(command.dtype, page->rank(), page->size());
  std::vector<double> seconds;
  for (int block = 0; block < command.blocks; ++block) {
    char* const end = operands + BlockBytes(command);
    const int64_t stride = StrideOf(command.bytes), first = number;
    for (char* at = operands; at < end; at += stride) pattern.Fill(at, command.bytes, number++);
    page->Barrier();
    const int64_t begin_ns = perf::data::NowNs();
    for (char* at = operands; at < end; at += stride) call(at);
    seconds.push_back(static_cast<double>(perf::data::NowNs() - begin_ns) * 1e-9 / command.calls);
    number = first;
    for (char* at = operands; at < end; at += stride) {
      if (!pattern.IsSum(at, command.bytes, number++)) link->Fail(command.what + ": wrong sum");
    }
  }
  return seconds;
}

}  // namespace farandole::bench

#endif  // FARANDOLE_TESTS_BENCH_MEASURED_BLOCKS_H_
