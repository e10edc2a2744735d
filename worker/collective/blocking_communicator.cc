#include "worker/collective/blocking_communicator.h"

#include <cstring>
#include <numeric>

#include "absl/strings/str_cat.h"

namespace farandole::worker::collective {
namespace {

// From here on the passes over memory cost more than a barrier; see bench_allreduce.
constexpr int64_t kInPlaceBytesMin = 2 << 20;

}  // namespace

char* BlockingCommunicator::Scratch(int64_t bytes) {
  void* const scratch = Buffer(bytes);
  return static_cast<char*>(scratch != nullptr ? scratch : plain_.Get(bytes));
}

absl::Status BlockingCommunicator::AllreducePieces(const Instance& instance, const arithmetic::Reduction& how,
                                                   absl::Span<const Piece> pieces) {
  const int64_t count = CountOf(pieces), bytes = count * SizeOf(how.dtype);
  Instance last = instance;
  // All members decide alike, also one that adds zeros and has no place of its own.
  const bool in_place = pieces.size() == 1 && (bytes >= kInPlaceBytesMin || size() == 1);
  if (in_place && size() > 1) {
    if (absl::Status s = Barrier(instance); !s.ok()) return s;
    ++last.part;
  }
  if (in_place && pieces[0].output != nullptr) {
    if (pieces[0].input != pieces[0].output) std::memcpy(pieces[0].output, pieces[0].input, bytes);
    return Allreduce(last, how, pieces[0].output, count);
  }
  char* const scratch = Scratch(bytes);
  if (scratch == nullptr && bytes > 0) {
    return absl::ResourceExhaustedError(absl::StrCat("this process has no memory for a buffer of ", bytes, " bytes"));
  }
  Pack(how.dtype, pieces, scratch);
  const absl::Status status = Allreduce(last, how, scratch, count);
  if (status.ok()) Unpack(how.dtype, scratch, pieces);
  return status;
}

absl::Status BlockingCommunicator::Reducescatter(const Instance& instance, const arithmetic::Reduction& how, void* data,
                                                 void* output, const std::vector<int64_t>& counts) {
  const int64_t before = std::accumulate(counts.begin(), counts.begin() + position(), int64_t{0});
  const int64_t all = std::accumulate(counts.begin() + position(), counts.end(), before);
  const absl::Status status = Allreduce(instance, how, data, all);
  if (!status.ok()) return status;
  const int64_t element = SizeOf(how.dtype), own = counts[position()];
  const char* const place = static_cast<const char*>(data) + before * element;
  if (own > 0 && place != output) std::memcpy(output, place, own * element);
  return status;
}

}  // namespace farandole::worker::collective
