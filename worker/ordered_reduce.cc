#include "worker/ordered_reduce.h"

#include <algorithm>
#include <cstring>

#include "worker/reduce.h"

namespace farandole {
namespace {

// Half of a first-level cache of 32 KiB: the piece of the result stays there while the operands stream past.
constexpr int64_t kPieceBytes = 16384;

}  // namespace

void OrderedReduce(const Reduction& how, absl::Span<const char* const> sources, char* out, int64_t count) {
  const int64_t size = SizeOf(how.dtype);
  if (sources.size() == 1) {
    std::memcpy(out, sources[0], count * size);
    return;
  }
  const int64_t piece = sources.size() == 2 ? count : kPieceBytes / size;
  for (int64_t at = 0; at < count; at += piece) {
    const int64_t n = std::min(piece, count - at), offset = at * size;
    Reduce2(how, out + offset, sources[0] + offset, sources[1] + offset, n);
    for (size_t i = 2; i < sources.size(); ++i) Reduce(how, out + offset, sources[i] + offset, n);
  }
}

void OrderedReduceToAll(const Reduction& how, absl::Span<char* const> operands, int64_t count) {
  if (operands.size() == 1) return;
  const int64_t size = SizeOf(how.dtype);
  const int64_t piece = kPieceBytes / size;
  char* first = operands[0];
  for (int64_t at = 0; at < count; at += piece) {
    const int64_t n = std::min(piece, count - at), offset = at * size;
    for (size_t i = 1; i < operands.size(); ++i) Reduce(how, first + offset, operands[i] + offset, n);
    for (size_t i = 1; i < operands.size(); ++i) std::memcpy(operands[i] + offset, first + offset, n * size);
  }
}

}  // namespace farandole
