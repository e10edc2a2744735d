#include "worker/nccl/lowering.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "worker/arithmetic/half.h"
#include "worker/arithmetic/integer_average.h"

namespace farandole::worker::nccl {
namespace {

using cuda::ncclRedOp_t;

// NCCL has no 16-bit integers. Sums and products that wrap around in 32 bits do so alike in 16.
DataType CarriedAs(DataType dtype) {
  return dtype == DataType::kInt16 || dtype == DataType::kUint16 ? DataType::kInt32 : dtype;
}

ncclRedOp_t OpOf(DataType dtype, ReduceOp op) {
  if (dtype == DataType::kBool) {
    // Bytes of 0 and 1: "or" is the greatest, "and" the least.
    return op == ReduceOp::kSum || op == ReduceOp::kMax ? cuda::ncclMax : cuda::ncclMin;
  }
  switch (op) {
    case ReduceOp::kMin:
      return cuda::ncclMin;
    case ReduceOp::kMax:
      return cuda::ncclMax;
    case ReduceOp::kProduct:
      return cuda::ncclProd;
    default:
      return cuda::ncclSum;
  }
}

// Whether NCCL may multiply with a number as well as a kernel would, which rounds each product: NCCL adds all but the
// first one without that (FMA), and has factors in the type itself. By a power of two products need no rounding, unless
// they are subnormal; of float16 usual gradients are, once they are divided.
bool NcclMayMultiply(DataType dtype, double number) {
  int exponent;
  if (dtype == DataType::kFloat16 || std::abs(std::frexp(number, &exponent)) != 0.5) return number == 1;
  const float single = static_cast<float>(number);
  if (dtype == DataType::kBfloat16) {
    return arithmetic::FloatFromBfloat16(arithmetic::Bfloat16FromFloat(single)) == number;
  }
  return true;
}

// Nothing at all if no tensor has factors.
std::vector<Factors> Needed(std::vector<Factors> factors) {
  if (std::all_of(factors.begin(), factors.end(), [](const Factors& one) { return one.none(); })) factors.clear();
  return factors;
}

Factors After(const collective::Scale& scale, bool integers, int size) {
  Factors after;
  after.factor = scale.postscale;
  const bool average = scale.op == ReduceOp::kAverage;
  if (average && integers) after.divisor = size;
  if (average && !integers) after.mean = 1.0 / size;
  return after;
}

// Pieces of memory, one after the other.
template <typename Memory>
class Run {
 public:
  void Add(Memory* piece, int64_t bytes) {
    if (bytes == 0) return;
    const auto at = reinterpret_cast<uintptr_t>(piece);
    if (begin_ == nullptr) begin_ = piece;
    if (piece == nullptr || (end_ != 0 && at != end_)) whole_ = false;
    end_ = at + bytes;
  }
  // Null: there is nothing, or some lie elsewhere.
  Memory* begin() const { return whole_ ? begin_ : nullptr; }

 private:
  Memory* begin_ = nullptr;
  uintptr_t end_ = 0;
  bool whole_ = true;
};

}  // namespace

Lowering Lower(const arithmetic::Reduction& how, const std::vector<collective::Scale>& scales, size_t tensors,
               int size) {
  Lowering lowering{CarriedAs(how.dtype), OpOf(how.dtype, how.op)};
  std::vector<Factors> before, after;
  for (const collective::Scale& scale : scales) {
    before.push_back({scale.prescale});
    after.push_back(After(scale, arithmetic::IsInteger(how.dtype), size));
  }
  const double factor = how.prescale * how.mean * how.postscale;
  if (scales.empty() && how.op == ReduceOp::kSum && NcclMayMultiply(how.dtype, factor)) {
    lowering.operand_factor = factor;
  } else if (scales.empty() && how.op == ReduceOp::kSum) {
    before.assign(tensors, {factor});
  } else if (scales.empty()) {
    before.assign(tensors, {how.prescale});
    after.assign(tensors, {how.postscale, how.mean});
  }
  lowering.before = Needed(std::move(before));
  lowering.after = Needed(std::move(after));
  return lowering;
}

cuda::ncclDataType_t NcclType(DataType type) {
  switch (type) {
    case DataType::kUint8:
    case DataType::kBool:
      return cuda::ncclUint8;
    case DataType::kInt8:
      return cuda::ncclInt8;
    case DataType::kInt32:
      return cuda::ncclInt32;
    case DataType::kInt64:
      return cuda::ncclInt64;
    case DataType::kFloat16:
      return cuda::ncclFloat16;
    case DataType::kFloat32:
      return cuda::ncclFloat32;
    case DataType::kFloat64:
      return cuda::ncclFloat64;
    case DataType::kBfloat16:
      return cuda::ncclBfloat16;
    default:
      std::abort();  // no Lowering has another one
  }
}

Layout LayoutOf(DataType dtype, const std::vector<collective::Piece>& pieces) {
  Run<const void> inputs;
  Run<void> outputs;
  for (const collective::Piece& piece : pieces) {
    inputs.Add(piece.input, piece.count * SizeOf(dtype));
    outputs.Add(piece.output, piece.count * SizeOf(dtype));
  }
  return {inputs.begin(), outputs.begin()};
}

bool InputsAreApart(DataType dtype, const std::vector<collective::Piece>& pieces, const void* output) {
  const int64_t element_bytes = SizeOf(dtype);
  const auto begin = reinterpret_cast<uintptr_t>(output);
  const uintptr_t end = begin + collective::CountOf(pieces) * element_bytes;
  return std::all_of(pieces.begin(), pieces.end(), [&](const collective::Piece& piece) {
    const auto input = reinterpret_cast<uintptr_t>(piece.input);
    return piece.count == 0 || piece.input == piece.output || input >= end ||
           input + piece.count * element_bytes <= begin;
  });
}

}  // namespace farandole::worker::nccl
