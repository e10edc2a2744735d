#include "worker/arithmetic/ordered_reduce.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "worker/arithmetic/reduce.h"

namespace farandole::worker::arithmetic {
namespace {

// Bytes of operands and result from which on the result is written past the caches: a quarter of the last one, which is
// shared with others. What does not stay there would be read only to be overwritten (reduce_bench has the figures).
// Where the size is not told: that of a small one.
int64_t StreamBytesMin() {
  static const int64_t bytes = [] {
    int64_t last = 0;
#ifdef _SC_LEVEL3_CACHE_SIZE
    last = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    return (last > 0 ? last : int64_t{8} << 20) / 4;
  }();
  return bytes;
}

}  // namespace

void OrderedReduce(const Reduction& how, absl::Span<const char* const> sources, char* out, int64_t count) {
  const int64_t bytes = count * SizeOf(how.dtype), all = bytes * static_cast<int64_t>(sources.size() + 1);
  if (sources.size() == 1 && !how.scales()) {
    if (bytes > 0) std::memcpy(out, sources[0], bytes);
    return;
  }
  Combine(how, {sources.data(), static_cast<int>(sources.size()), &out, 1, count, how.prescale, how.postscale, how.mean,
                all >= StreamBytesMin()});
}

void OrderedReduceToAll(const Reduction& how, absl::Span<char* const> operands, int64_t count) {
  if (operands.size() == 1 && !how.scales()) return;
  const int number = static_cast<int>(operands.size());
  Combine(how, {operands.data(), number, operands.data(), number, count, how.prescale, how.postscale, how.mean});
}

}  // namespace farandole::worker::arithmetic
