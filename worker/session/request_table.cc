#include "worker/session/request_table.h"

#include <algorithm>

namespace farandole::worker::session {

uint32_t RequestTable::FindPlace(const std::shared_ptr<const Request>& request) {
  if (!entries_.empty()) {
    const uint32_t guess = entries_[last_].next;
    const Request* const named = entries_[guess].named;
    if (named != nullptr && KeyOf(*named) == KeyOf(*request)) return guess;
  }
  const auto it = places_.find(KeyOf(*request));
  return it == places_.end() ? NewPlace(request) : it->second;
}

uint32_t RequestTable::NewPlace(const std::shared_ptr<const Request>& request) {
  if (places_.size() - size_ >= kIdleMax) ForgetIdle();
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(entries_.size()));
    entries_.emplace_back();
    named_.emplace_back();
  }
  const uint32_t place = free_.back();
  free_.pop_back();
  entries_[place].named = request.get();
  named_[place] = request;
  places_.emplace(KeyOf(*request), place);
  return place;
}

void RequestTable::ForgetIdle() {
  for (uint32_t place = 0; place < entries_.size(); ++place) {
    Entry& entry = entries_[place];
    if (entry.operation != nullptr || entry.named == nullptr) continue;
    places_.erase(KeyOf(*entry.named));
    entry.named = nullptr;
    named_[place] = nullptr;
    free_.push_back(place);
  }
}

bool RequestTable::Add(const std::shared_ptr<Operation>& operation) {
  const uint32_t place = PlaceOf(operation->shared_request);
  Entry& entry = entries_[place];
  if (entry.operation != nullptr) return false;
  entry.operation = operation;
  entry.open = true;
  operation->place = place;
  operation->order = next_order_++;
  entries_[last_].next = place;
  last_ = place;
  ++size_;
  ++open_;
  return true;
}

std::shared_ptr<Operation> RequestTable::Assign(uint32_t process_set, absl::string_view name) {
  const auto it = places_.find(Key(process_set, name));
  if (it == places_.end() || !entries_[it->second].open) return nullptr;
  return Assign(it->second);
}

bool RequestTable::Reopen(const std::shared_ptr<Operation>& operation) {
  if (!Holds(*operation)) return false;
  Entry& entry = entries_[operation->place];
  if (!entry.open) ++open_;
  entry.operation = operation;
  entry.open = true;
  return true;
}

const Operation* RequestTable::Find(uint32_t process_set, absl::string_view name) const {
  const auto it = places_.find(Key(process_set, name));
  return it == places_.end() || !entries_[it->second].open ? nullptr : entries_[it->second].operation.get();
}

const Operation* RequestTable::Oldest() const {
  const Operation* oldest = nullptr;
  for (const Entry& entry : entries_) {
    if (entry.open && (oldest == nullptr || entry.operation->order < oldest->order)) oldest = entry.operation.get();
  }
  return oldest;
}

void RequestTable::Remove(const Operation& operation) {
  if (!Holds(operation)) return;
  Entry& entry = entries_[operation.place];
  --size_;
  if (entry.open) --open_;
  entry.open = false;
  entry.operation = nullptr;
}

std::vector<std::shared_ptr<Operation>> RequestTable::Open() const {
  std::vector<std::shared_ptr<Operation>> operations;
  operations.reserve(open_);
  for (const Entry& entry : entries_) {
    if (entry.open) operations.push_back(entry.operation);
  }
  std::sort(operations.begin(), operations.end(), [](const auto& a, const auto& b) { return a->order < b->order; });
  return operations;
}

std::vector<std::shared_ptr<Operation>> RequestTable::TakeOpen() {
  std::vector<std::shared_ptr<Operation>> operations = Open();
  for (const auto& operation : operations) Remove(*operation);
  return operations;
}

}  // namespace farandole::worker::session
