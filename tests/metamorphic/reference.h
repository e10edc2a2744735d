#ifndef FARANDOLE_TESTS_METAMORPHIC_REFERENCE_H_
#define FARANDOLE_TESTS_METAMORPHIC_REFERENCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/metamorphic/history.h"

namespace farandole::metamorphic {

// What a collective has to give, computed plainly from the operands of all.
//
// Exact are all that only move data, integers, small whole numbers, and minima and maxima without factors. Otherwise,
// with u the relative error of one rounding in the type, n members, x the operands, p and q the factors:
//   sum               (n + 4) u |q| (|p x1| + ... + |p xn|): each operand is rounded once when it is scaled, then n - 1
//                     times as part of a sum, and at the end when that is scaled and when it becomes 16 bits; the
//                     factors of all types but float64 are rounded, too
//   product           (3 n + 3) u |q p^n x1 ... xn|: as above, with n operands and n factors that are not exact
//   minimum, maximum  5 u |q p x|
// and n + 3 times the least number that the type has, for what lies below its normal numbers.
struct Expected {
  bool exact = true;
  // Of the exact results, as bytes.
  std::vector<char> bytes;
  // Otherwise, of each element.
  std::vector<double> values, bounds;
};

// Of the member at `position`. Of a barrier: nothing.
Expected Reference(const Call& call, int position, int ranks);

// What is wrong with a result first; empty: nothing.
std::string Complaint(const Call& call, const Expected& expected, const std::vector<char>& actual);

}  // namespace farandole::metamorphic

#endif  // FARANDOLE_TESTS_METAMORPHIC_REFERENCE_H_
