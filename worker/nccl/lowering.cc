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

constexpr int64_t kAlignBytes = 16;  // also in farandole/torch/gradients/device_memory.py

// Pieces of memory that are to lie at offsets from one address.
template <typename Memory>
class Run {
 public:
  void Add(Memory* piece, int64_t begin) {
    if (piece == nullptr) whole_ = false;
    if (!whole_) return;
    // An address before the first piece need not be one.
    const uintptr_t origin = reinterpret_cast<uintptr_t>(piece) - static_cast<uintptr_t>(begin);
    if (first_ == nullptr) {
      first_ = piece;
      origin_ = origin;
    }
    whole_ = origin == origin_;
  }
  // Null: there is nothing, or some lie elsewhere. The first piece lies at offset 0.
  Memory* begin() const { return whole_ ? first_ : nullptr; }

 private:
  Memory* first_ = nullptr;
  uintptr_t origin_ = 0;
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

Layout LayOut(DataType type, const std::vector<collective::Piece>& pieces) {
  Layout layout;
  for (const collective::Piece& piece : pieces) {
    const int64_t begin = (layout.bytes + kAlignBytes - 1) / kAlignBytes * kAlignBytes;
    layout.begins.push_back(begin);
    if (piece.count == 0) continue;
    const bool joins = !layout.calls.empty() && begin == layout.bytes;
    if (!joins) layout.calls.push_back({begin, 0});
    layout.calls.back().count += piece.count;
    layout.bytes = begin + piece.count * SizeOf(type);
  }
  return layout;
}

Laid FindLaid(const Layout& layout, const std::vector<collective::Piece>& pieces) {
  Run<const void> inputs;
  Run<void> outputs;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].count == 0) continue;
    inputs.Add(pieces[i].input, layout.begins[i]);
    outputs.Add(pieces[i].output, layout.begins[i]);
  }
  return {inputs.begin(), outputs.begin()};
}

bool InputsAreApart(DataType type, const Layout& layout, const std::vector<collective::Piece>& pieces,
                    const void* output) {
  const auto begin = reinterpret_cast<uintptr_t>(output);
  const uintptr_t end = begin + layout.bytes;
  return std::all_of(pieces.begin(), pieces.end(), [&](const collective::Piece& piece) {
    const auto input = reinterpret_cast<uintptr_t>(piece.input);
    return piece.count == 0 || piece.input == piece.output || input >= end ||
           input + piece.count * SizeOf(type) <= begin;
  });
}

}  // namespace farandole::worker::nccl
