#ifndef FARANDOLE_WORKER_SHM_SEGMENT_H_
#define FARANDOLE_WORKER_SHM_SEGMENT_H_

#include <sched.h>

#include <atomic>
#include <cstdint>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace farandole {

// Operands up to this size travel beside the flag.
inline constexpr int64_t kShmTinyBytes = 480;

// What a rank says to all others in one phase. Its flag, `sequence`, and the first 40 bytes of the payload share a
// cache line, so that a tiny message costs one transfer between cores.
struct alignas(128) ShmSlot {
  std::atomic<uint32_t> sequence;  // the phase that this slot was published for; futex word
  std::atomic<uint32_t> parked;    // how many wait for `sequence` in the kernel
  uint32_t check;                  // stands for the call: instance, operation, type, sizes
  uint32_t reserved;
  int64_t location;  // of the operand in the segment; negative: outside
  char payload[kShmTinyBytes];
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);
static_assert(sizeof(ShmSlot) <= 512);

// The first pages of a rank's part.
struct ShmControl {
  ShmSlot slots[2];  // of even and of odd phases
  cpu_set_t affinity;
  double quota_cpus;
  // Of rank 0 only: where ranks that share too few CPUs wait together, see ShmSync.
  alignas(128) std::atomic<uint32_t> arrived;
  alignas(128) std::atomic<uint32_t> completed;  // futex word
  std::atomic<uint32_t> waiting;
};

// A shared segment as mapped here: for each rank control pages, two chunks for staging, and a batch buffer, each on
// pages of its own, which its rank touches first. Owns the mapping.
class ShmSegment {
 public:
  struct Sizes {
    int ranks = 1;
    int64_t chunk_bytes = 0;  // multiples of 64
    int64_t buffer_bytes = 0;
  };

  static int64_t TotalBytes(const Sizes& sizes);

  // INVALID_ARGUMENT: the descriptor holds less than that; RESOURCE_EXHAUSTED: no address space.
  static absl::StatusOr<ShmSegment> Map(UniqueFd fd, const Sizes& sizes);

  ShmSegment(ShmSegment&& o) noexcept;
  ShmSegment& operator=(ShmSegment&& o) = delete;
  ~ShmSegment();

  const Sizes& sizes() const { return sizes_; }
  ShmControl& control(int rank) const { return *reinterpret_cast<ShmControl*>(Part(rank)); }
  char* chunk(int rank, int which) const;
  char* buffer(int rank) const;

  // The location of an operand inside the buffer of `rank`, or -1.
  int64_t LocationOf(int rank, const void* data, int64_t bytes) const;
  // The operand of `rank` at a location it published; nullptr if that does not lie inside its buffer.
  char* At(int rank, int64_t location, int64_t bytes) const;

 private:
  ShmSegment(char* base, const Sizes& sizes) : base_(base), sizes_(sizes) {}
  char* Part(int rank) const;

  char* base_ = nullptr;
  Sizes sizes_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_SHM_SEGMENT_H_
