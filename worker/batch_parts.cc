#include "worker/batch_parts.h"

#include <algorithm>
#include <utility>

namespace farandole {

std::vector<BatchPart> PartsOf(const Work& work) {
  std::vector<BatchPart> parts;
  std::vector<std::pair<DataType, size_t>> allreduces;
  for (size_t i = 0; i < work.operations.size(); ++i) {
    const Signature& signature = work.signature(i);
    if (signature.op != OpKind::kAllreduce) {
      parts.push_back({i});
      continue;
    }
    const auto known = std::find_if(allreduces.begin(), allreduces.end(),
                                    [&signature](const auto& part) { return part.first == signature.dtype; });
    if (known != allreduces.end()) {
      parts[known->second].push_back(i);
    } else {
      allreduces.emplace_back(signature.dtype, parts.size());
      parts.push_back({i});
    }
  }
  return parts;
}

}  // namespace farandole
