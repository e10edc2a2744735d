#ifndef FARANDOLE_WORKER_KERNELS_ADASUM_CALL_H_
#define FARANDOLE_WORKER_KERNELS_ADASUM_CALL_H_

#include <cstdint>

namespace farandole::worker::kernels {

// One tensor of an Adasum, in a list of all of them.
struct AdasumPiece {
  int64_t end;    // elements in this member's share up to the end of this tensor; those of one before it: it has none
  double factor;  // of the result
};
static_assert(sizeof(AdasumPiece) == 16, "the layout that kernels read");

// An Adasum as kernels get it; host and device agree on its layout. Everything lies in memory of the device.
struct AdasumCall {
  const AdasumPiece* table;
  double* products;   // of each piece arithmetic::AdasumProducts(members); zeros at first
  double* weights;    // of each piece `members` numbers, and as many of scratch memory
  uint64_t operands;  // address of the elements of this share of the first member, behind them those of the next one
  uint64_t out;       // address of the results of this share
  int64_t count;      // elements in this share
  int32_t pieces;
  int32_t members;
};
static_assert(sizeof(AdasumCall) == 56, "the layout that kernels read");

}  // namespace farandole::worker::kernels

#endif  // FARANDOLE_WORKER_KERNELS_ADASUM_CALL_H_
