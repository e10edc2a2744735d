#include "worker/shm/shared_memory.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/os/memory_node.h"

namespace farandole::worker::shm {
namespace {

// Few sizes, so that what was freed fits again.
constexpr int64_t kGranuleBytes = 2 << 20;

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15;
  return hash ^ hash >> 29;
}

}  // namespace

SharedMemory& SharedMemory::Process() {
  static SharedMemory* memory = new SharedMemory;
  return *memory;
}

std::string SharedMemory::KeyOf(Rank rank, int number) { return absl::StrCat("memory/", rank.value(), "/", number); }

void SharedMemory::DropOld(const GenerationId& generation) {
  regions_.erase(std::remove_if(regions_.begin(), regions_.end(),
                                [&](const Region& r) { return !r.used && r.generation != generation; }),
                 regions_.end());
}

absl::StatusOr<char*> SharedMemory::Allocate(collective::Bootstrap* bootstrap, const GenerationId& generation,
                                             Rank rank, int64_t bytes) {
  if (bytes <= 0 || bytes > INT64_MAX - kGranuleBytes) {
    return absl::InvalidArgumentError(absl::StrCat("shared memory of ", bytes, " bytes"));
  }
  const int64_t rounded = (bytes + kGranuleBytes - 1) / kGranuleBytes * kGranuleBytes;
  int number;
  {
    absl::MutexLock lock(&mutex_);
    DropOld(generation);
    int held = 0;
    for (Region& region : regions_) {
      if (region.generation != generation) continue;
      ++held;
      if (region.used || region.mapping.bytes() != rounded) continue;
      region.used = true;
      return region.mapping.data();
    }
    if (held >= kRegionsMax) {
      return absl::ResourceExhaustedError(absl::StrCat("this process holds ", held, " regions of shared memory"));
    }
    number = ++last_number_;
  }
  absl::StatusOr<UniqueFd> fd = bootstrap->Segment(KeyOf(rank, number), rounded);
  if (!fd.ok()) return fd.status();
  absl::StatusOr<SharedMapping> mapping = SharedMapping::Map(*std::move(fd), rounded);
  if (!mapping.ok()) return mapping.status();
  os::KeepNear(mapping->data(), rounded);
  absl::MutexLock lock(&mutex_);
  regions_.push_back(Region{generation, number, true, *std::move(mapping)});
  return regions_.back().mapping.data();
}

bool SharedMemory::Free(const char* data) {
  absl::MutexLock lock(&mutex_);
  for (Region& region : regions_) {
    if (!region.used || region.mapping.data() != data) continue;
    region.used = false;
    return true;
  }
  return false;
}

const SharedMemory::Region* SharedMemory::FindRegion(const GenerationId& generation, const void* data,
                                                     int64_t bytes) const {
  const uintptr_t at = reinterpret_cast<uintptr_t>(data);
  for (const Region& region : regions_) {
    const uintptr_t start = reinterpret_cast<uintptr_t>(region.mapping.data());
    const int64_t room = region.mapping.bytes() - bytes;
    if (region.generation == generation && room >= 0 && at >= start && at - start <= static_cast<uintptr_t>(room)) {
      return &region;
    }
  }
  return nullptr;
}

absl::optional<SharedMemory::Layout> SharedMemory::Find(const GenerationId& generation, DataType dtype,
                                                        absl::Span<const collective::Piece> pieces) const {
  absl::MutexLock lock(&mutex_);
  if (regions_.empty()) return absl::nullopt;
  Layout layout;
  for (const collective::Piece& piece : pieces) {
    const int64_t bytes = piece.count * SizeOf(dtype);
    if (bytes == 0) continue;
    if (piece.output != piece.input) return absl::nullopt;
    const Region* const region = FindRegion(generation, piece.output, bytes);
    if (region == nullptr || (layout.number != 0 && layout.number != region->number)) return absl::nullopt;
    if (layout.number == 0) {
      layout.number = region->number;
      layout.region = region->mapping.data();
      layout.bytes = region->mapping.bytes();
      layout.hash = Mix(0, layout.bytes);
    }
    layout.hash = Mix(Mix(layout.hash, static_cast<char*>(piece.output) - layout.region), piece.count);
  }
  if (layout.number == 0) return absl::nullopt;
  return layout;
}

}  // namespace farandole::worker::shm
