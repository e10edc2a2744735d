#include "worker/piece.h"

#include <cstring>

namespace farandole {

int64_t CountOf(absl::Span<const Piece> pieces) {
  int64_t count = 0;
  for (const Piece& piece : pieces) count += piece.count;
  return count;
}

void Pack(DataType dtype, absl::Span<const Piece> pieces, char* to) {
  for (const Piece& piece : pieces) {
    const int64_t bytes = piece.count * SizeOf(dtype);
    if (bytes == 0) continue;
    if (piece.input != nullptr) {
      std::memcpy(to, piece.input, bytes);
    } else {
      std::memset(to, 0, bytes);
    }
    to += bytes;
  }
}

void Unpack(DataType dtype, const char* from, absl::Span<const Piece> pieces) {
  for (const Piece& piece : pieces) {
    const int64_t bytes = piece.count * SizeOf(dtype);
    if (piece.output != nullptr && bytes > 0) std::memcpy(piece.output, from, bytes);
    from += bytes;
  }
}

}  // namespace farandole
