#ifndef FARANDOLE_WORKER_KERNELS_MOVE_PIECE_H_
#define FARANDOLE_WORKER_KERNELS_MOVE_PIECE_H_

#include <cstdint>

namespace farandole::worker::kernels {

// One contiguous run of elements that a kernel moves; host and device agree on its layout. Of what is moved in one
// launch no two pieces overlap; a piece may be moved onto itself, but not overlap itself otherwise.
//
// The numbers are those of worker/arithmetic to the last bit. With an x of the type that is moved:
//   floating point  factor * (mean * x), each product rounded as reduction.h says for a postscale and a mean; a
//   prescale
//                   is a factor without a mean. A NaN becomes the one of which all bits are set
//   integers        x * factor / divisor in double, truncated toward zero; what the type cannot hold becomes its
//                   nearest value. As AverageIntegers, and as ScaleCopy where the divisor is 1
//   bool            x
// Where factor, mean and divisor are 1, bits are copied, also those of a NaN.
struct MovePiece {
  uint64_t from;  // address of the first element; 0: zeros are written, whatever the factors
  uint64_t to;    // any alignment, as `from`; fast where both are the same modulo 16
  int64_t end;    // elements of this piece and of all before it in its table; those of one before it: an empty piece
  double factor;
  double mean;      // floating point only
  int32_t divisor;  // integers only
  int32_t unused;   // makes the padding visible, so that tables compare as bytes
};
static_assert(sizeof(MovePiece) == 48, "the layout that kernels read");

}  // namespace farandole::worker::kernels

#endif  // FARANDOLE_WORKER_KERNELS_MOVE_PIECE_H_
