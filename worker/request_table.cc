#include "worker/request_table.h"

#include <algorithm>

namespace farandole {

RequestTable::Key RequestTable::KeyOf(const Operation& operation) {
  return {operation.request.signature.process_set, operation.request.name};
}

bool RequestTable::Add(std::shared_ptr<Operation> operation) {
  Key key = KeyOf(*operation);
  const bool added = entries_.try_emplace(std::move(key), Entry{std::move(operation), next_order_, false}).second;
  if (!added) return false;
  ++next_order_;
  ++open_;
  return true;
}

std::shared_ptr<Operation> RequestTable::Assign(uint32_t process_set, absl::string_view name) {
  auto it = entries_.find(Key(process_set, name));
  if (it == entries_.end() || it->second.assigned) return nullptr;
  it->second.assigned = true;
  --open_;
  return it->second.operation;
}

bool RequestTable::Reopen(const Operation& operation) {
  auto it = entries_.find(KeyOf(operation));
  if (it == entries_.end() || it->second.operation.get() != &operation) return false;
  if (it->second.assigned) ++open_;
  it->second.assigned = false;
  return true;
}

const Operation* RequestTable::Find(uint32_t process_set, absl::string_view name) const {
  auto it = entries_.find(Key(process_set, name));
  return it == entries_.end() || it->second.assigned ? nullptr : it->second.operation.get();
}

const Operation* RequestTable::Oldest() const {
  const Entry* oldest = nullptr;
  for (const auto& [key, entry] : entries_) {
    if (!entry.assigned && (oldest == nullptr || entry.order < oldest->order)) oldest = &entry;
  }
  return oldest == nullptr ? nullptr : oldest->operation.get();
}

void RequestTable::Remove(const Operation& operation) {
  auto it = entries_.find(KeyOf(operation));
  if (it == entries_.end() || it->second.operation.get() != &operation) return;
  if (!it->second.assigned) --open_;
  entries_.erase(it);
}

std::vector<std::shared_ptr<Operation>> RequestTable::Open() const {
  std::vector<const Entry*> entries;
  for (const auto& [key, entry] : entries_) {
    if (!entry.assigned) entries.push_back(&entry);
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
