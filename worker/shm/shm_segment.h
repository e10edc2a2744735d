#ifndef FARANDOLE_WORKER_SHM_SHM_SEGMENT_H_
#define FARANDOLE_WORKER_SHM_SHM_SEGMENT_H_

#include <sched.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "worker/shm/shared_mapping.h"

namespace farandole::worker::shm {

// Room for an operand that travels beside the flag.
inline constexpr int64_t kShmTinyBytes = 2048;

// Where an operand lies: in which of its rank's successive buffers, and at which byte. Step 0: in none.
struct ShmPlace {
  uint32_t step = 0;
  int64_t offset = 0;
};

// What a rank says to all others in one phase. Its flag, `arrival`, and an operand of up to 32 bytes share a cache
// line, so that the least messages cost one transfer between cores; larger ones begin on a line of their own.
struct alignas(128) ShmSlot {
  std::atomic<uint64_t> arrival;  // the phase, and in the upper half the instance, that this slot was published for
  std::atomic<uint32_t> parked;   // how many wait in the kernel for the phase, the futex word
  uint32_t check;                 // stands for the call: operation, type, sizes
  uint32_t place_step;            // see ShmPlace
  int64_t place_offset;
  char near[32];
  char far[kShmTinyBytes];

  // Where an operand of so many bytes is.
  char* payload(int64_t bytes) { return bytes <= static_cast<int64_t>(sizeof near) ? near : far; }
  const char* payload(int64_t bytes) const { return const_cast<ShmSlot*>(this)->payload(bytes); }
};
static_assert(offsetof(ShmSlot, far) == 64);
static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the lower half of `arrival` comes first");

// The first pages of a rank's part.
struct ShmControl {
  ShmSlot slots[2];  // of even and of odd phases
  cpu_set_t affinity;
  double quota_cpus;
  // 0: this rank takes part. Otherwise it has given up, and 2 + the rank of the job that it blames, or 1.
  std::atomic<uint32_t> gone;
  // Of rank 0 only: where ranks that share too few CPUs wait together, see ShmSync.
  alignas(128) std::atomic<uint32_t> completed;  // the last phase that all have arrived in; futex word
  std::atomic<uint32_t> waiting;
};

// The shared segment of a group as mapped here: for each rank control pages and two chunks for staging, each on pages
// of its own, which its rank keeps near.
class ShmSegment {
 public:
  struct Sizes {
    int ranks = 1;
    int64_t chunk_bytes = 0;  // multiples of 64
  };

  static int64_t TotalBytes(const Sizes& sizes);

  // Errors as SharedMapping.
  static absl::StatusOr<ShmSegment> Map(UniqueFd fd, const Sizes& sizes);

  const Sizes& sizes() const { return sizes_; }
  ShmControl& control(int rank) const { return *reinterpret_cast<ShmControl*>(Part(rank)); }
  char* chunk(int rank, int which) const;
  // The own part, before others use it.
  void KeepNear(int rank) const;

 private:
  ShmSegment(SharedMapping mapping, const Sizes& sizes) : mapping_(std::move(mapping)), sizes_(sizes) {}
  char* Part(int rank) const;

  SharedMapping mapping_;
  Sizes sizes_;
};

}  // namespace farandole::worker::shm

#endif  // FARANDOLE_WORKER_SHM_SHM_SEGMENT_H_
