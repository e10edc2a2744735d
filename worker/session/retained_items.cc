#include "worker/session/retained_items.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace farandole::worker::session {

void RetainedItems::Add(Item item) {
  if (std::holds_alternative<Replay>(item.body)) {
    ForgetBegun();
    replay_ = item.index;
  } else if (std::holds_alternative<Resume>(item.body)) {
    resume_ = item.index;
  }
  items_.push_back(std::move(item));
}

void RetainedItems::DropThrough(uint64_t index) {
  while (!items_.empty() && items_.front().index <= index) {
    const uint64_t front = items_.front().index;
    if (front == replay_ || front == resume_) kept_.push_back(std::move(items_.front()));
    items_.pop_front();
  }
}

void RetainedItems::ForgetBegun() {
  if (resume_ == 0) return;
  replay_ = 0;
  resume_ = 0;
  kept_.clear();
}

std::vector<uint64_t> RetainedItems::Indices() const {
  std::vector<uint64_t> indices;
  for (const Item& item : kept_) indices.push_back(item.index);
  for (const Item& item : items_) indices.push_back(item.index);
  return indices;
}

std::vector<Item> RetainedItems::Find(const std::vector<uint64_t>& indices) const {
  std::vector<Item> found;
  for (uint64_t index : indices) {
    auto kept = std::find_if(kept_.begin(), kept_.end(), [index](const Item& item) { return item.index == index; });
    if (kept != kept_.end()) {
      found.push_back(*kept);
      continue;
    }
    auto it = std::lower_bound(items_.begin(), items_.end(), index,
                               [](const Item& item, uint64_t wanted) { return item.index < wanted; });
    if (it != items_.end() && it->index == index) found.push_back(*it);
  }
  return found;
}

}  // namespace farandole::worker::session
