#include "worker/shm_segment.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

constexpr int64_t kPageBytes = 4096;

int64_t Pages(int64_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

int64_t ControlBytes() { return Pages(sizeof(ShmControl)); }

int64_t PartBytes(const ShmSegment::Sizes& sizes) {
  return ControlBytes() + 2 * Pages(sizes.chunk_bytes) + Pages(sizes.buffer_bytes);
}

}  // namespace

int64_t ShmSegment::TotalBytes(const Sizes& sizes) { return sizes.ranks * PartBytes(sizes); }

absl::StatusOr<ShmSegment> ShmSegment::Map(UniqueFd fd, const Sizes& sizes) {
  const int64_t bytes = TotalBytes(sizes);
  struct stat info;
  if (fstat(fd.get(), &info) != 0 || info.st_size < bytes) {
    return absl::InvalidArgumentError(absl::StrCat("the shared segment is smaller than the ", bytes,
                                                   " bytes asked for; are agent and workers of one release?"));
  }
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (base == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot map a shared segment of ", bytes, " bytes: ", std::strerror(errno), "; see ulimit -v"));
  }
  return ShmSegment(static_cast<char*>(base), sizes);
}

ShmSegment::ShmSegment(ShmSegment&& o) noexcept : base_(std::exchange(o.base_, nullptr)), sizes_(o.sizes_) {}

ShmSegment::~ShmSegment() {
  if (base_ != nullptr) munmap(base_, TotalBytes(sizes_));
}

char* ShmSegment::Part(int rank) const { return base_ + rank * PartBytes(sizes_); }

char* ShmSegment::chunk(int rank, int which) const {
  return Part(rank) + ControlBytes() + which * Pages(sizes_.chunk_bytes);
}

char* ShmSegment::buffer(int rank) const { return chunk(rank, 2); }

int64_t ShmSegment::LocationOf(int rank, const void* data, int64_t bytes) const {
  const uintptr_t start = reinterpret_cast<uintptr_t>(buffer(rank)), at = reinterpret_cast<uintptr_t>(data);
  if (at < start || bytes > sizes_.buffer_bytes || at - start > static_cast<uintptr_t>(sizes_.buffer_bytes - bytes)) {
    return -1;
  }
  return static_cast<int64_t>(at - start);
}

char* ShmSegment::At(int rank, int64_t location, int64_t bytes) const {
  if (location < 0 || bytes > sizes_.buffer_bytes || location > sizes_.buffer_bytes - bytes) return nullptr;
  return buffer(rank) + location;
}

}  // namespace farandole
