#include "proto/rules/signature_slots.h"

#include <utility>

namespace farandole {

bool SignatureSlots::Define(uint32_t slot, Request request) {
  if (slot == 0 || slot > kSlotsMax || request.name.empty()) return false;
  if (slot > slots_.size()) slots_.resize(slot);
  Request& content = slots_[slot - 1];
  if (content.name != request.name) {
    if (!content.name.empty()) by_name_.erase(content.name);
    uint32_t& at = by_name_[request.name];
    if (at != 0) slots_[at - 1] = Request();
    at = slot;
  }
  content = std::move(request);
  return true;
}

uint32_t SignatureSlots::Find(const Request& request) const {
  const uint32_t slot = FindName(request.name);
  return slot != 0 && slots_[slot - 1].signature == request.signature ? slot : 0;
}

uint32_t SignatureSlots::FindName(absl::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? 0 : it->second;
}

const Request* SignatureSlots::At(uint32_t slot) const {
  if (slot == 0 || slot > slots_.size() || slots_[slot - 1].name.empty()) return nullptr;
  return &slots_[slot - 1];
}

void SignatureSlots::Clear() {
  slots_.clear();
  by_name_.clear();
}

}  // namespace farandole
