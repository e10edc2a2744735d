#ifndef FARANDOLE_WORKER_SHM_PEER_MEMORY_H_
#define FARANDOLE_WORKER_SHM_PEER_MEMORY_H_

#include <cstdint>
#include <map>
#include <utility>

#include "absl/status/statusor.h"
#include "proto/types.h"
#include "worker/collective/bootstrap.h"
#include "worker/shm/shared_mapping.h"

namespace farandole::worker::shm {

// The regions of peers' SharedMemory as mapped here, each for as long as this lives. One thread.
class PeerMemory {
 public:
  // `bootstrap` must outlive this.
  explicit PeerMemory(collective::Bootstrap* bootstrap) : bootstrap_(bootstrap) {}

  // Region `number` of a rank of the job, of `bytes`. The first time it asks the control plane.
  absl::StatusOr<char*> At(Rank rank, int number, int64_t bytes);

 private:
  collective::Bootstrap* const bootstrap_;
  std::map<std::pair<int, int>, SharedMapping> regions_;
};

}  // namespace farandole::worker::shm

#endif  // FARANDOLE_WORKER_SHM_PEER_MEMORY_H_
