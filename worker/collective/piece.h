#ifndef FARANDOLE_WORKER_COLLECTIVE_PIECE_H_
#define FARANDOLE_WORKER_COLLECTIVE_PIECE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "proto/types.h"

namespace farandole::worker::collective {

// One tensor of an allreduce of several: `count` elements at `input`, whose combination belongs at `output`, which may
// be the same address. Both null: this member adds zeros.
struct Piece {
  const void* input = nullptr;
  void* output = nullptr;
  int64_t count = 0;
};

// Elements of all pieces together.
int64_t CountOf(absl::Span<const Piece> pieces);

// Goes once through pieces as if they lay one behind the other, some bytes at a time. The pieces outlive it.
class PieceWalk {
 public:
  PieceWalk(DataType dtype, absl::Span<const Piece> pieces) : element_bytes_(SizeOf(dtype)), pieces_(pieces) {}

  // The next bytes of the inputs; zeros for those that are null.
  void Pack(char* to, int64_t bytes);
  // To the next bytes of the outputs that there are.
  void Unpack(const char* from, int64_t bytes);

 private:
  // Bytes of the piece that the walk is at, at most `bytes`.
  int64_t Left(int64_t bytes);

  int64_t element_bytes_;
  absl::Span<const Piece> pieces_;
  size_t piece_ = 0;
  int64_t offset_ = 0;  // bytes of that piece that are behind
};

// The inputs one behind the other, zeros for those that are null.
void Pack(DataType dtype, absl::Span<const Piece> pieces, char* to);
// Back to the outputs that there are.
void Unpack(DataType dtype, const char* from, absl::Span<const Piece> pieces);

}  // namespace farandole::worker::collective

#endif  // FARANDOLE_WORKER_COLLECTIVE_PIECE_H_
