#ifndef FARANDOLE_WORKER_ARITHMETIC_INTEGER_AVERAGE_H_
#define FARANDOLE_WORKER_ARITHMETIC_INTEGER_AVERAGE_H_

#include <cstdint>

#include "proto/types.h"

namespace farandole::worker::arithmetic {

bool IsInteger(DataType dtype);

// out[i] = in[i] * postscale / size in double, truncated toward zero; what the type cannot hold becomes its nearest
// value. `out` may be `in`. Divides, since a product with 1 / size would turn 49 / 49 into 0. IsInteger types only
// (abort otherwise).
void AverageIntegers(DataType dtype, void* out, const void* in, int64_t count, double postscale, int size);

}  // namespace farandole::worker::arithmetic

#endif  // FARANDOLE_WORKER_ARITHMETIC_INTEGER_AVERAGE_H_
