#include "controller/ready/signature_cache.h"

#include <algorithm>
#include <utility>

namespace farandole::controller::ready {

SignatureCache::SignatureCache(uint32_t capacity) : capacity_(std::min(capacity, SignatureSlots::kSlotsMax)) {}

SignatureCache::Content SignatureCache::Meant(uint32_t slot, uint64_t received_through) const {
  if (slot == 0 || slot > slots_.size()) return {};
  const Slot& s = at(slot);
  if (received_through >= s.defined_at) return {now_.At(slot), &s.first_dims};
  if (s.previous.name.empty()) return {};
  return {&s.previous, &s.previous_first_dims};
}

SignatureCache::SlotUse SignatureCache::Dispatch(const Request& request, const std::vector<int64_t>& first_dims,
                                                 uint64_t index, uint64_t stable) {
  if (capacity_ == 0) return {};
  uint32_t slot = now_.FindName(request.name);
  if (slot != 0 && now_.At(slot)->signature == request.signature && at(slot).first_dims == first_dims) {
    Unlink(slot);
    MakeNewest(slot);
    return {slot, false};
  }
  if (slot == 0 && slots_.size() < capacity_) {
    slots_.emplace_back();
    slot = static_cast<uint32_t>(slots_.size());
  } else {
    if (slot == 0) slot = oldest_;
    if (stable < at(slot).defined_at) return {};
    at(slot).previous = *now_.At(slot);
    at(slot).previous_first_dims = std::move(at(slot).first_dims);
    Unlink(slot);
  }
  now_.Define(slot, request);
  at(slot).first_dims = first_dims;
  at(slot).defined_at = last_defined_ = index;
  MakeNewest(slot);
  return {slot, true};
}

void SignatureCache::Unlink(uint32_t slot) {
  const Slot& s = at(slot);
  (s.older != 0 ? at(s.older).newer : oldest_) = s.newer;
  (s.newer != 0 ? at(s.newer).older : newest_) = s.older;
}

void SignatureCache::MakeNewest(uint32_t slot) {
  at(slot).older = newest_;
  at(slot).newer = 0;
  (newest_ != 0 ? at(newest_).newer : oldest_) = slot;
  newest_ = slot;
}

}  // namespace farandole::controller::ready
