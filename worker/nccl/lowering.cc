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
  if (dtype == DataType::kFloat16 || std::abs(std::frexp(number, &exponent)) != 0.5) return false;
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

constexpr int64_t kVectorBytes = 16;  // also in farandole/torch/gradients/device_memory.py

bool RunsAreApart(const Layout& layout, const Bases& bases) {
  const auto whole = reinterpret_cast<uintptr_t>(bases[Layout::kWhole]);
  const auto odd = reinterpret_cast<uintptr_t>(bases[Layout::kOdd]);
  return whole + layout.runs[Layout::kWhole].bytes <= odd || odd + layout.runs[Layout::kOdd].bytes <= whole;
}

// The bases at which all tensors lie that have elements; `at` gives the address of each, null where it has none.
template <typename At>
std::optional<Bases> FindBases(const Layout& layout, const std::vector<collective::Piece>& pieces, const At& at) {
  Bases bases = {};
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].count == 0) continue;
    const Layout::Spot& spot = layout.spots[i];
    char* const address = at(pieces[i]);
    if (address == nullptr) return std::nullopt;
    // The first tensor of a run begins it.
    if (bases[spot.run] == nullptr) bases[spot.run] = address;
    if (address != SpotAt(bases, spot)) return std::nullopt;
  }
  return bases;
}

}  // namespace

Lowering Lower(const arithmetic::Reduction& how, const std::vector<collective::Scale>& scales, size_t tensors, int size,
               int64_t bytes) {
  Lowering lowering{CarriedAs(how.dtype), OpOf(how.dtype, how.op)};
  std::vector<Factors> before, after;
  for (const collective::Scale& scale : scales) {
    before.push_back({scale.prescale});
    after.push_back(After(scale, arithmetic::IsInteger(how.dtype), size));
  }
  const double factor = how.prescale * how.mean * how.postscale;
  const bool by_nccl = factor == 1 || (bytes <= kFactorBytesMax && NcclMayMultiply(how.dtype, factor));
  if (scales.empty() && how.op == ReduceOp::kSum && by_nccl) {
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
    const int64_t bytes = piece.count * SizeOf(type);
    const int run = bytes % kVectorBytes == 0 ? Layout::kWhole : Layout::kOdd;
    layout.spots.push_back({run, layout.runs[run].bytes});
    layout.runs[run].count += piece.count;
    layout.runs[run].bytes += bytes;
  }
  return layout;
}

Bases BasesAt(const Layout& layout, void* begin) {
  char* const first = static_cast<char*>(begin);
  return {first, first + layout.runs[Layout::kWhole].bytes};
}

char* SpotAt(const Bases& bases, const Layout::Spot& spot) { return bases[spot.run] + spot.begin; }

Laid FindLaid(const Layout& layout, const std::vector<collective::Piece>& pieces) {
  const auto input = [](const collective::Piece& piece) {
    return const_cast<char*>(static_cast<const char*>(piece.input));
  };
  const auto output = [](const collective::Piece& piece) { return static_cast<char*>(piece.output); };
  Laid laid{FindBases(layout, pieces, input), FindBases(layout, pieces, output)};
  // One call would write what the other one reads.
  if (laid.output.has_value() && !RunsAreApart(layout, *laid.output)) laid.output.reset();
  return laid;
}

bool InputsAreApart(DataType type, const Layout& layout, const std::vector<collective::Piece>& pieces,
                    const Bases& output) {
  const auto is_apart = [&](const collective::Piece& piece, int run) {
    const auto input = reinterpret_cast<uintptr_t>(piece.input);
    const auto begin = reinterpret_cast<uintptr_t>(output[run]);
    return input >= begin + layout.runs[run].bytes || input + piece.count * SizeOf(type) <= begin;
  };
  return std::all_of(pieces.begin(), pieces.end(), [&](const collective::Piece& piece) {
    if (piece.count == 0 || piece.input == piece.output) return true;
    return is_apart(piece, Layout::kWhole) && is_apart(piece, Layout::kOdd);
  });
}

}  // namespace farandole::worker::nccl
