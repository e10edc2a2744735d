#include "worker/execute/batch_parts.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "worker/arithmetic/reduction.h"

namespace farandole::worker::execute {
namespace {

using Kind = std::tuple<DataType, ReduceOp, double, double>;

Kind KindOf(const Signature& signature) {
  if (!arithmetic::IsHalf(signature.dtype))
    return {signature.dtype, arithmetic::CombinationOf(signature.reduce_op), 1, 1};
  return {signature.dtype, signature.reduce_op, signature.prescale, signature.postscale};
}

}  // namespace

std::vector<BatchPart> PartsOf(const session::Work& work) {
  std::vector<BatchPart> parts;
  std::vector<std::pair<Kind, size_t>> allreduces;
  for (size_t i = 0; i < work.operations.size(); ++i) {
    const Signature& signature = work.signature(i);
    if (signature.op != OpKind::kAllreduce) {
      parts.push_back({i});
      continue;
    }
    const Kind kind = KindOf(signature);
    const auto known =
        std::find_if(allreduces.begin(), allreduces.end(), [&kind](const auto& part) { return part.first == kind; });
    if (known != allreduces.end()) {
      parts[known->second].push_back(i);
    } else {
      allreduces.emplace_back(kind, parts.size());
      parts.push_back({i});
    }
  }
  return parts;
}

}  // namespace farandole::worker::execute
