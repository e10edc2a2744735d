#ifndef FARANDOLE_WORKER_PIECE_H_
#define FARANDOLE_WORKER_PIECE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "proto/types.h"

namespace farandole {

// One tensor of an allreduce of several: `count` elements at `input`, whose combination belongs at `output`, which may
// be the same address. Both null: this member adds zeros.
struct Piece {
  const void* input = nullptr;
  void* output = nullptr;
  int64_t count = 0;
};

// Elements of all pieces together.
int64_t CountOf(absl::Span<const Piece> pieces);

// The inputs one behind the other, zeros for those that are null.
void Pack(DataType dtype, absl::Span<const Piece> pieces, char* to);
// Back to the outputs that there are.
void Unpack(DataType dtype, const char* from, absl::Span<const Piece> pieces);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_PIECE_H_
