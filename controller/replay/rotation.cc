#include "controller/replay/rotation.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

namespace farandole::controller::replay {
namespace {

// Of the places where one may continue the other, so many are compared: a tenant's names may have as many as tensors.
constexpr int kComparedMax = 64;

// The tensors of a period in their order, as numbers.
using Order = std::vector<size_t>;

Order OrderOf(const Period& period) {
  Order order;
  for (const PeriodBatch& batch : period.batches) {
    for (const Request& request : batch.requests) {
      order.push_back(std::hash<std::string>()(request.name) * (2 * size_t{batch.process_set} + 1));
    }
  }
  return order;
}

// How many tensors are the same in both, if one begins behind the first `passed` of `known`.
size_t Agreed(const Order& known, size_t passed, const Order& found) {
  const auto cut = static_cast<std::ptrdiff_t>(passed);
  const std::plus<> add;
  const std::equal_to<> same;
  const size_t before = std::inner_product(known.begin(), known.begin() + cut, found.end() - cut, size_t{0}, add, same);
  return std::inner_product(known.begin() + cut, known.end(), found.begin(), before, add, same);
}

}  // namespace

absl::optional<Period> RotatedLike(const Period& known, const Period& found) {
  const Order from = OrderOf(known), to = OrderOf(found);
  if (from.size() != to.size()) return absl::nullopt;
  // Where tensors occur several times, `found` may end with the first ones of `known` in several ways.
  size_t begin = 0, agreed = Agreed(from, 0, to), agreed_inside = 0;
  size_t passed = 0, first = 0, last = 0;
  int compared = 0;
  for (size_t batch = 0; batch < known.batches.size(); ++batch) {
    for (size_t i = 0; i < known.batches[batch].requests.size(); ++i) {
      if (passed > 0 && first == last && compared++ < kComparedMax) {
        const size_t here = Agreed(from, passed, to);
        if (i > 0) {
          agreed_inside = std::max(agreed_inside, here);
        } else if (here > agreed) {
          begin = batch;
          agreed = here;
        }
      }
      first += from[passed];
      last += to[to.size() - ++passed];
    }
  }
  // Where the order varies, a few tensors agree by chance, inside of batches, too.
  if (agreed_inside > 2 * agreed) return absl::nullopt;
  Period rotated = known;
  std::rotate(rotated.batches.begin(), rotated.batches.begin() + begin, rotated.batches.end());
  return rotated;
}

}  // namespace farandole::controller::replay
