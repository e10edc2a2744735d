#include "worker/session/slot_mirrors.h"

#include <utility>

namespace farandole::worker::session {

bool SlotMirrors::Expand(Batch* batch) {
  for (BatchEntry& entry : batch->entries) {
    SignatureSlots* slots = entry.slot != 0 ? &by_set_[batch->process_set] : nullptr;
    if (slots != nullptr && entry.name.empty()) {
      const Request* known = slots->At(entry.slot);
      if (known == nullptr) return false;
      entry.name = known->name;
      if (entry.signature.op == OpKind::kUnspecified) entry.signature = known->signature;
      entry.slot = 0;
      continue;
    }
    // The own signature: that of an allgather differs between ranks in its first dimension.
    const Operation* own = table_->Find(batch->process_set, entry.name);
    if (own != nullptr) entry.signature = own->request.signature;
    if (slots != nullptr && !slots->Define(entry.slot, {entry.name, entry.signature})) return false;
    entry.slot = 0;
  }
  return true;
}

void SlotMirrors::Announce(const Request& request, farandole::Announce* announce) {
  const uint32_t process_set = request.signature.process_set;
  auto it = by_set_.find(process_set);
  const uint32_t slot = it != by_set_.end() ? it->second.Find(request) : 0;
  if (slot == 0) {
    ++misses_;
    announce->requests.push_back(request);
    return;
  }
  ++hits_;
  if (announce->cached.empty() || announce->cached.back().process_set != process_set) {
    announce->cached.push_back({process_set, {}});
  }
  announce->cached.back().slots.push_back(slot);
}

}  // namespace farandole::worker::session
