#include "transport/memory_cache.h"

#include <utility>

namespace farandole::transport {

absl::Status MemoryCache::Keep(void* data, size_t bytes) {
  absl::StatusOr<std::unique_ptr<Memory>> memory = transport_->Register(data, bytes);
  if (!memory.ok()) return memory.status();
  kept_[static_cast<const char*>(data)] = *std::move(memory);
  return absl::OkStatus();
}

void MemoryCache::Drop(const void* data) { kept_.erase(static_cast<const char*>(data)); }

absl::StatusOr<MemoryCache::Use> MemoryCache::Get(void* data, size_t bytes) {
  const char* const begin = static_cast<const char*>(data);
  auto after = kept_.upper_bound(begin);
  if (after != kept_.begin()) {
    const Memory& memory = *std::prev(after)->second;
    const size_t offset = begin - memory.data();
    if (offset <= memory.size() && bytes <= memory.size() - offset) return Use{&memory, offset, nullptr};
  }
  absl::StatusOr<std::unique_ptr<Memory>> own = transport_->Register(data, bytes);
  if (!own.ok()) return own.status();
  Use use;
  use.memory = own->get();
  use.own = *std::move(own);
  return use;
}

}  // namespace farandole::transport
