#ifndef FARANDOLE_WORKER_SHM_SHARED_MEMORY_H_
#define FARANDOLE_WORKER_SHM_SHARED_MEMORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "worker/collective/bootstrap.h"
#include "worker/collective/piece.h"
#include "worker/shm/shared_mapping.h"

namespace farandole::worker::shm {

// Memory of this process that its peers on the host can map as well: for tensors that live long and are reduced again
// and again, so that nobody has to copy them first. Any thread.
//
// A region is good for collectives of the generation that it was made in; its bytes stay until it is freed. What is
// freed waits for the next who wants about as much, as an agent forgets no segment before the generation ends.
class SharedMemory {
 public:
  // Regions begin on pages; bounds their number in one generation.
  static constexpr int kRegionsMax = 64;

  // That of this process. Never destroyed: tensors may outlive a Runtime, and static objects.
  static SharedMemory& Process();

  SharedMemory() = default;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  // At least `bytes`, not zeroed. `bootstrap` is asked for a segment, `rank` is of this process in its generation.
  // Blocks for an answer of the agent. UNAVAILABLE, RESOURCE_EXHAUSTED: there is no such memory, with the reason.
  absl::StatusOr<char*> Allocate(collective::Bootstrap* bootstrap, const GenerationId& generation, Rank rank,
                                 int64_t bytes);
  // What Allocate has returned; false: it has not.
  bool Free(const char* data);

  // Where pieces lie that are reduced in place, all of them in one region.
  struct Layout {
    int number = 0;  // of the region, names it among those of its rank
    char* region = nullptr;
    int64_t bytes = 0;  // of the region
    // Stands for the size of the region and the places of all pieces in it: members with the same have the same there.
    uint64_t hash = 0;
  };
  absl::optional<Layout> Find(const GenerationId& generation, DataType dtype,
                              absl::Span<const collective::Piece> pieces) const;

  // The name of the segment of a rank's region.
  static std::string KeyOf(Rank rank, int number);

 private:
  struct Region {
    GenerationId generation;
    int number = 0;
    bool used = false;
    SharedMapping mapping;
  };

  const Region* FindRegion(const GenerationId& generation, const void* data, int64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Nobody can use what is free and of another generation any more.
  void DropOld(const GenerationId& generation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  int last_number_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Region> regions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole::worker::shm

#endif  // FARANDOLE_WORKER_SHM_SHARED_MEMORY_H_
