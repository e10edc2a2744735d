#include "controller/replay/rotation.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <set>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace farandole::controller::replay {
namespace {

using Key = std::pair<uint32_t, std::string>;

// Where each tensor comes, in the order of its occurrences; and how many there are.
struct Places {
  explicit Places(const Period& period) {
    for (const PeriodBatch& batch : period.batches) {
      for (const Request& request : batch.requests) of[{batch.process_set, request.name}].push_back(count++);
    }
  }
  absl::flat_hash_map<Key, std::deque<size_t>> of;
  size_t count = 0;
};

// Of a rotation, all tensors before the cut or all behind it are off by half of the tensors or more.
bool IsLike(const Period& period, Places places) {
  size_t place = 0;
  for (const PeriodBatch& batch : period.batches) {
    for (const Request& request : batch.requests) {
      std::deque<size_t>& left = places.of[{batch.process_set, request.name}];
      if (left.empty()) return false;
      const size_t off = std::max(place, left.front()) - std::min(place, left.front());
      if (2 * off >= places.count) return false;
      left.pop_front();
      ++place;
    }
  }
  return place == places.count;
}

}  // namespace

absl::optional<Period> RotatedLike(const Period& known, const Period& found) {
  const Places places(found);
  // Those that begin with what `found` begins with; and `known` itself, whose first tensors may have changed places.
  std::set<size_t> begins = {0};
  const PeriodBatch& first = found.batches[0];
  for (size_t i = 0; i < known.batches.size(); ++i) {
    const PeriodBatch& batch = known.batches[i];
    const bool has = std::any_of(batch.requests.begin(), batch.requests.end(),
                                 [&first](const Request& each) { return each.name == first.requests[0].name; });
    if (has && batch.process_set == first.process_set) begins.insert(i);
  }
  for (size_t begin : begins) {
    Period rotated = known;
    std::rotate(rotated.batches.begin(), rotated.batches.begin() + begin, rotated.batches.end());
    if (IsLike(rotated, places)) return rotated;
  }
  return absl::nullopt;
}

}  // namespace farandole::controller::replay
