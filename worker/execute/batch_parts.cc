#include "worker/execute/batch_parts.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "worker/arithmetic/reduction.h"

namespace farandole::worker::execute {
namespace {

using Kind = std::tuple<DeviceKind, DataType, ReduceOp, double, double>;

Kind KindOf(const Signature& signature) {
  if (!arithmetic::IsHalf(signature.dtype))
    return {signature.device, signature.dtype, arithmetic::CombinationOf(signature.reduce_op), 1, 1};
  return {signature.device, signature.dtype, signature.reduce_op, signature.prescale, signature.postscale};
}

}  // namespace

std::vector<BatchPart> PartsOf(const session::Work& work, int64_t bytes_max) {
  std::vector<BatchPart> parts;
  // Of each kind the part that is being filled.
  struct Filling {
    Kind kind;
    size_t part;
    int64_t bytes;
  };
  std::vector<Filling> allreduces;
  for (size_t i = 0; i < work.operations.size(); ++i) {
    const Signature& signature = work.signature(i);
    if (signature.op != OpKind::kAllreduce) {
      parts.push_back({i});
      continue;
    }
    const Kind kind = KindOf(signature);
    const int64_t bytes = ElementCount(signature.shape) * SizeOf(signature.dtype);
    auto filling =
        std::find_if(allreduces.begin(), allreduces.end(), [&kind](const Filling& one) { return one.kind == kind; });
    const bool fits = filling != allreduces.end() && bytes <= bytes_max - filling->bytes;
    if (filling == allreduces.end()) filling = allreduces.insert(filling, {kind, 0, 0});
    if (!fits) {
      *filling = {kind, parts.size(), 0};
      parts.emplace_back();
    }
    parts[filling->part].push_back(i);
    filling->bytes += bytes;
  }
  return parts;
}

}  // namespace farandole::worker::execute
