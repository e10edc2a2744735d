#include "worker/staging/chunks.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <variant>

#include "worker/collective/share.h"

namespace farandole::worker::staging {
namespace {

const void* Behind(const void* memory, int64_t bytes) {
  return memory == nullptr ? nullptr : static_cast<const char*>(memory) + bytes;
}
void* Behind(void* memory, int64_t bytes) { return memory == nullptr ? nullptr : static_cast<char*>(memory) + bytes; }

// In whole cache lines, for the copies. What there are too many of is empty, and left out.
std::vector<int64_t> ChunkSizes(int64_t count, int64_t element_bytes, int64_t chunk_bytes) {
  const int64_t chunks = (count * element_bytes + chunk_bytes - 1) / chunk_bytes;
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < chunks; ++i) {
    const collective::Share share = collective::LineShare(count, element_bytes, chunks, i);
    if (share.count > 0) sizes.push_back(share.count);
  }
  return sizes;
}

// Takes elements from the front of an allreduce.
class PieceCutter {
 public:
  explicit PieceCutter(const collective::Allreduce* whole) : whole_(*whole) {}

  collective::Allreduce Next(int64_t count) {
    collective::Allreduce chunk{whole_.how, {}};
    while (count > 0) {
      const collective::Piece& piece = whole_.pieces[piece_];
      const int64_t taken = std::min(count, piece.count - offset_);
      if (taken > 0) {
        const int64_t before = offset_ * SizeOf(whole_.how.dtype);
        chunk.pieces.push_back({Behind(piece.input, before), Behind(piece.output, before), taken});
        if (!whole_.scales.empty()) chunk.scales.push_back(whole_.scales[piece_]);
      }
      count -= taken;
      offset_ += taken;
      if (offset_ < piece.count) continue;
      ++piece_;
      offset_ = 0;
    }
    return chunk;
  }

 private:
  const collective::Allreduce& whole_;
  size_t piece_ = 0;
  int64_t offset_ = 0;  // elements of that piece that are taken
};

struct Cutter {
  const int64_t chunk_bytes;

  std::vector<Call> operator()(const collective::Allreduce& whole) const {
    const std::vector<int64_t> sizes =
        ChunkSizes(collective::CountOf(whole.pieces), SizeOf(whole.how.dtype), chunk_bytes);
    if (sizes.size() < 2) return {whole};
    PieceCutter pieces(&whole);
    std::vector<Call> chunks;
    for (int64_t size : sizes) chunks.push_back(pieces.Next(size));
    return chunks;
  }

  std::vector<Call> operator()(const collective::Broadcast& whole) const {
    const std::vector<int64_t> sizes = ChunkSizes(whole.bytes, 1, chunk_bytes);
    if (sizes.size() < 2) return {whole};
    std::vector<Call> chunks;
    int64_t before = 0;
    for (int64_t size : sizes) {
      chunks.push_back(
          collective::Broadcast{whole.root, Behind(whole.input, before), Behind(whole.output, before), size});
      before += size;
    }
    return chunks;
  }

  template <typename Other>
  std::vector<Call> operator()(const Other& whole) const {
    return {whole};
  }
};

}  // namespace

std::vector<Call> Cut(const Call& whole, int64_t chunk_bytes) { return std::visit(Cutter{chunk_bytes}, whole); }

}  // namespace farandole::worker::staging
