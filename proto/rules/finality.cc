#include "proto/rules/finality.h"

#include <algorithm>

namespace farandole {

const Request* FindFinal(const std::vector<Request>& requests) {
  const auto it = std::find_if(requests.begin(), requests.end(),
                               [](const Request& r) { return r.signature.device != DeviceKind::kHost; });
  return it == requests.end() ? nullptr : &*it;
}

}  // namespace farandole
