#include "worker/collective/piece.h"

#include <algorithm>
#include <cstring>

namespace farandole::worker::collective {

int64_t CountOf(absl::Span<const Piece> pieces) {
  int64_t count = 0;
  for (const Piece& piece : pieces) count += piece.count;
  return count;
}

int64_t PieceWalk::Left(int64_t bytes) {
  while (offset_ == pieces_[piece_].count * element_bytes_) {
    ++piece_;
    offset_ = 0;
  }
  return std::min(bytes, pieces_[piece_].count * element_bytes_ - offset_);
}

void PieceWalk::Pack(char* to, int64_t bytes) {
  while (bytes > 0) {
    const int64_t n = Left(bytes);
    if (const void* input = pieces_[piece_].input; input != nullptr) {
      std::memcpy(to, static_cast<const char*>(input) + offset_, n);
    } else {
      std::memset(to, 0, n);
    }
    to += n;
    bytes -= n;
    offset_ += n;
  }
}

void PieceWalk::Unpack(const char* from, int64_t bytes) {
  while (bytes > 0) {
    const int64_t n = Left(bytes);
    if (void* output = pieces_[piece_].output; output != nullptr) {
      std::memcpy(static_cast<char*>(output) + offset_, from, n);
    }
    from += n;
    bytes -= n;
    offset_ += n;
  }
}

void Pack(DataType dtype, absl::Span<const Piece> pieces, char* to) {
  PieceWalk(dtype, pieces).Pack(to, CountOf(pieces) * SizeOf(dtype));
}

void Unpack(DataType dtype, const char* from, absl::Span<const Piece> pieces) {
  PieceWalk(dtype, pieces).Unpack(from, CountOf(pieces) * SizeOf(dtype));
}

}  // namespace farandole::worker::collective
