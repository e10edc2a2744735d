#include "worker/request_table.h"

#include <algorithm>

namespace farandole {

uint32_t RequestTable::PlaceOf(const std::shared_ptr<const Request>& request) {
  if (last_ < entries_.size() && entries_[last_].next < entries_.size()) {
    const uint32_t guess = entries_[last_].next;
    const std::shared_ptr<const Request>& named = entries_[guess].named;
    if (named == request || (named != nullptr && KeyOf(*named) == KeyOf(*request))) return guess;
  }
  const auto it = places_.find(KeyOf(*request));
  return it == places_.end() ? NewPlace(request) : it->second;
}

uint32_t RequestTable::NewPlace(const std::shared_ptr<const Request>& request) {
  if (places_.size() - size_ >= kIdleMax) ForgetIdle();
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(entries_.size()));
    entries_.emplace_back();
  }
  const uint32_t place = free_.back();
  free_.pop_back();
  entries_[place].named = request;
  places_.emplace(KeyOf(*request), place);
  return place;
}

void RequestTable::ForgetIdle() {
  for (uint32_t place = 0; place < entries_.size(); ++place) {
    Entry& entry = entries_[place];
    if (entry.operation != nullptr || entry.named == nullptr) continue;
    places_.erase(KeyOf(*entry.named));
    entry.named = nullptr;
    free_.push_back(place);
  }
}

bool RequestTable::Add(const std::shared_ptr<Operation>& operation) {
  const uint32_t place = PlaceOf(operation->shared_request);
  Entry& entry = entries_[place];
  if (entry.operation != nullptr) return false;
  entry.operation = operation;
  entry.order = next_order_++;
  entry.assigned = false;
  operation->place = place;
  entries_[last_].next = place;
  last_ = place;
  ++size_;
  ++open_;
  return true;
}

std::shared_ptr<Operation> RequestTable::Assign(uint32_t process_set, absl::string_view name) {
  const auto it = places_.find(Key(process_set, name));
  if (it == places_.end() || !entries_[it->second].open()) return nullptr;
  entries_[it->second].assigned = true;
  --open_;
  return entries_[it->second].operation;
}

void RequestTable::Assign(const Operation& operation) {
  Entry* entry = EntryOf(operation);
  if (entry == nullptr || entry->assigned) return;
  entry->assigned = true;
  --open_;
}

RequestTable::Entry* RequestTable::EntryOf(const Operation& operation) {
  if (operation.place >= entries_.size()) return nullptr;
  Entry& entry = entries_[operation.place];
  return entry.operation.get() == &operation ? &entry : nullptr;
}

bool RequestTable::Reopen(const Operation& operation) {
  Entry* entry = EntryOf(operation);
  if (entry == nullptr) return false;
  if (entry->assigned) ++open_;
  entry->assigned = false;
  return true;
}

const Operation* RequestTable::Find(uint32_t process_set, absl::string_view name) const {
  const auto it = places_.find(Key(process_set, name));
  return it == places_.end() || !entries_[it->second].open() ? nullptr : entries_[it->second].operation.get();
}

const Operation* RequestTable::Oldest() const {
  const Entry* oldest = nullptr;
  for (const Entry& entry : entries_) {
    if (entry.open() && (oldest == nullptr || entry.order < oldest->order)) oldest = &entry;
  }
  return oldest == nullptr ? nullptr : oldest->operation.get();
}

void RequestTable::Remove(const Operation& operation) {
  Entry* entry = EntryOf(operation);
  if (entry == nullptr) return;
  if (!entry->assigned) --open_;
  --size_;
  entry->operation = nullptr;
}

std::vector<std::shared_ptr<Operation>> RequestTable::Open() const {
  std::vector<const Entry*> entries;
  for (const Entry& entry : entries_) {
    if (entry.open()) entries.push_back(&entry);
  }
  std::sort(entries.begin(), entries.end(), [](const Entry* a, const Entry* b) { return a->order < b->order; });
  std::vector<std::shared_ptr<Operation>> operations;
  operations.reserve(entries.size());
  for (const Entry* entry : entries) operations.push_back(entry->operation);
  return operations;
}

std::vector<std::shared_ptr<Operation>> RequestTable::TakeOpen() {
  std::vector<std::shared_ptr<Operation>> operations = Open();
  for (const auto& operation : operations) Remove(*operation);
  return operations;
}

}  // namespace farandole
