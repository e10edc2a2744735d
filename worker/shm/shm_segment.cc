#include "worker/shm/shm_segment.h"

#include <utility>

#include "worker/os/memory_node.h"

namespace farandole::worker::shm {
namespace {

constexpr int64_t kPageBytes = 4096;

int64_t Pages(int64_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

int64_t ControlBytes() { return Pages(sizeof(ShmControl)); }

int64_t PartBytes(const ShmSegment::Sizes& sizes) { return ControlBytes() + 2 * Pages(sizes.chunk_bytes); }

}  // namespace

int64_t ShmSegment::TotalBytes(const Sizes& sizes) { return sizes.ranks * PartBytes(sizes); }

absl::StatusOr<ShmSegment> ShmSegment::Map(UniqueFd fd, const Sizes& sizes) {
  absl::StatusOr<SharedMapping> mapping = SharedMapping::Map(std::move(fd), TotalBytes(sizes));
  if (!mapping.ok()) return mapping.status();
  return ShmSegment(*std::move(mapping), sizes);
}

char* ShmSegment::Part(int rank) const { return mapping_.data() + rank * PartBytes(sizes_); }

void ShmSegment::KeepNear(int rank) const { farandole::worker::os::KeepNear(Part(rank), PartBytes(sizes_)); }

char* ShmSegment::chunk(int rank, int which) const {
  return Part(rank) + ControlBytes() + which * Pages(sizes_.chunk_bytes);
}

}  // namespace farandole::worker::shm
