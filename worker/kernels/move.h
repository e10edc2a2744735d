#ifndef FARANDOLE_WORKER_KERNELS_MOVE_H_
#define FARANDOLE_WORKER_KERNELS_MOVE_H_

#include <cstdint>

#include "worker/kernels/elements.h"
#include "worker/kernels/memory.h"
#include "worker/kernels/move_piece.h"

// Moves the pieces of a table in one launch: packs tensors into a buffer, unpacks them, scales, casts, writes zeros.
// For host and device. The elements of all pieces are counted through and cut into chunks; groups of lanes, on a device
// the warps, take the chunks in turn. A group finds the piece of a chunk by binary search and walks on from there.
namespace farandole::worker::kernels {

// A lane's part of the work: all lanes of a group do the same chunks, side by side.
struct Share {
  int64_t group, groups;
  int64_t lane, lanes;
};

template <typename Op>
FARANDOLE_ALWAYS_INLINE Vector Applied(const Op& op, Vector vector) {
  constexpr int kElements = sizeof(Vector) / sizeof(typename Op::In);
  typename Op::In in[kElements];
  typename Op::Out out[kElements];
  __builtin_memcpy(in, &vector, sizeof vector);
  FARANDOLE_UNROLL for (int i = 0; i < kElements; ++i) out[i] = op(in[i]);
  __builtin_memcpy(&vector, out, sizeof vector);
  return vector;
}

// From vector `at` on, kAbreast of a lane's vectors at a time, as long as there are so many; where it stopped. Loads
// come before stores, so that several are under way.
template <int kAbreast, typename Op>
FARANDOLE_ALWAYS_INLINE int64_t MoveVectors(const Op& op, uint64_t from, uint64_t to, int64_t at, int64_t vectors,
                                            const Share& share) {
  for (; at + (kAbreast - 1) * share.lanes < vectors; at += kAbreast * share.lanes) {
    Vector values[kAbreast] = {};
    FARANDOLE_UNROLL for (int k = 0; k < kAbreast && Op::kReads; ++k) {
      values[k] = LoadVector(from + (at + k * share.lanes) * sizeof(Vector));
    }
    FARANDOLE_UNROLL for (int k = 0; k < kAbreast; ++k) {
      StoreVector(to + (at + k * share.lanes) * sizeof(Vector), Applied(op, values[k]));
    }
  }
  return at;
}

// An element at any address.
template <typename Op>
FARANDOLE_ALWAYS_INLINE void MoveOne(const Op& op, uint64_t from, uint64_t to, bool aligned) {
  using In = typename Op::In;
  using Out = typename Op::Out;
  In value = {};
  if (Op::kReads) value = aligned ? Load<Aligned<In>>(from) : Load<Unaligned<In>>(from);
  const Out result = op(value);
  aligned ? Store<Aligned<Out>>(to, result) : Store<Unaligned<Out>>(to, result);
}

// A contiguous run of elements, in vectors where both addresses allow it. Op says what is done, by In, Out and
// operator().
template <typename Op>
FARANDOLE_ALWAYS_INLINE void MoveRun(const Op& op, uint64_t from, uint64_t to, int64_t count, const Share& share) {
  using In = typename Op::In;
  using Out = typename Op::Out;
  constexpr int64_t kElements = sizeof(Vector) / sizeof(Out);
  const bool aligned = from % sizeof(In) == 0 && to % sizeof(Out) == 0;
  int64_t before = count, vectors = 0;
  if constexpr (sizeof(In) == sizeof(Out)) {
    if (aligned && (from ^ to) % sizeof(Vector) == 0) {
      const int64_t odd = static_cast<int64_t>(-to % sizeof(Vector) / sizeof(Out));
      before = odd < count ? odd : count;
      vectors = (count - before) / kElements;
      const uint64_t skipped = before * sizeof(Out);
      const int64_t at = MoveVectors<Op::kAbreast>(op, from + skipped, to + skipped, share.lane, vectors, share);
      if (Op::kAbreast > 1) MoveVectors<1>(op, from + skipped, to + skipped, at, vectors, share);
    }
  }
  // What lies before and behind the vectors.
  for (int64_t i = share.lane; i < count - vectors * kElements; i += share.lanes) {
    const int64_t at = i < before ? i : i + vectors * kElements;
    MoveOne(op, from + at * sizeof(In), to + at * sizeof(Out), aligned);
  }
}

// The three things that can happen to elements of a kind.
template <typename Kind>
struct Zeroed {
  using In = typename Kind::Out;
  using Out = typename Kind::Out;
  static constexpr bool kReads = false;
  static constexpr int kAbreast = 1;
  Out operator()(In) const { return Out{}; }
};
template <typename Kind>
struct Copied {
  using In = typename Kind::In;
  using Out = typename Kind::Out;
  static constexpr bool kReads = true;
  static constexpr int kAbreast = 4;
  Out operator()(In value) const { return Kind::Copied(value); }
};
template <typename Kind>
struct Scaled {
  using In = typename Kind::In;
  using Out = typename Kind::Out;
  static constexpr bool kReads = true;
  static constexpr int kAbreast = Kind::kAbreast;
  Out operator()(In value) const { return Kind::Scaled(value, factors); }
  typename Kind::Factors factors;
};

// `count` elements of a piece, the first `skipped` left out.
template <typename Kind>
FARANDOLE_ALWAYS_INLINE void MovePart(const MovePiece& piece, int64_t skipped, int64_t count, const Share& share) {
  const uint64_t to = piece.to + skipped * sizeof(typename Kind::Out);
  // Zeros have no address to read from; one with the alignment of `to` takes the way of vectors.
  if (piece.from == 0) return MoveRun(Zeroed<Kind>{}, to, to, count, share);
  const uint64_t from = piece.from + skipped * sizeof(typename Kind::In);
  if (Kind::Copies(piece)) return MoveRun(Copied<Kind>{}, from, to, count, share);
  MoveRun(Scaled<Kind>{typename Kind::Factors(piece)}, from, to, count, share);
}

// The piece that holds the element at `position`, by the ends of all; `pieces`: none does.
template <typename Piece>
FARANDOLE_ALWAYS_INLINE int32_t PieceAt(const Piece* table, int32_t pieces, int64_t position) {
  int32_t first = 0;
  for (int32_t beyond = pieces; first < beyond;) {
    const int32_t middle = first + (beyond - first) / 2;
    if (table[middle].end > position) {
      beyond = middle;
    } else {
      first = middle + 1;
    }
  }
  return first;
}

// The elements [at, stop), counted through all pieces.
template <typename Kind>
FARANDOLE_ALWAYS_INLINE void MoveChunk(const MovePiece* table, int32_t pieces, int64_t at, int64_t stop,
                                       const Share& share) {
  int32_t index = PieceAt(table, pieces, at);
  for (int64_t begin = index > 0 ? table[index - 1].end : 0; at < stop && index < pieces; ++index) {
    const MovePiece piece = table[index];
    const int64_t end = piece.end < stop ? piece.end : stop;
    if (end > at) {
      MovePart<Kind>(piece, at - begin, end - at, share);
      at = end;
    }
    begin = piece.end;
  }
}

// A lane's share of moving the first `elements` of a table, which holds at least so many.
template <typename Kind>
FARANDOLE_ALWAYS_INLINE void Move(const MovePiece* table, int32_t pieces, int64_t elements, int64_t chunk,
                                  const Share& share) {
  for (int64_t at = share.group * chunk; at < elements; at += share.groups * chunk) {
    MoveChunk<Kind>(table, pieces, at, elements - at < chunk ? elements : at + chunk, share);
  }
}

}  // namespace farandole::worker::kernels

// Every kernel of this kind: its name, the types that it reads and writes, and what becomes of elements.
#define FARANDOLE_MOVE_KERNELS(KERNEL)                          \
  KERNEL(move_uint8, kUint8, kUint8, Integers<uint8_t>)         \
  KERNEL(move_int8, kInt8, kInt8, Integers<int8_t>)             \
  KERNEL(move_uint16, kUint16, kUint16, Integers<uint16_t>)     \
  KERNEL(move_int16, kInt16, kInt16, Integers<int16_t>)         \
  KERNEL(move_int32, kInt32, kInt32, Integers<int32_t>)         \
  KERNEL(move_int64, kInt64, kInt64, Integers<int64_t>)         \
  KERNEL(move_float16, kFloat16, kFloat16, Float16s)            \
  KERNEL(move_float32, kFloat32, kFloat32, Float32s)            \
  KERNEL(move_float64, kFloat64, kFloat64, Float64s)            \
  KERNEL(move_bool, kBool, kBool, Bools)                        \
  KERNEL(move_bfloat16, kBfloat16, kBfloat16, Bfloat16s)        \
  KERNEL(move_int16_to_int32, kInt16, kInt32, Int16sToInt32)    \
  KERNEL(move_int32_to_int16, kInt32, kInt16, Int32sToInt16)    \
  KERNEL(move_uint16_to_int32, kUint16, kInt32, Uint16sToInt32) \
  KERNEL(move_int32_to_uint16, kInt32, kUint16, Int32sToUint16)

#endif  // FARANDOLE_WORKER_KERNELS_MOVE_H_
