#include "worker/shm/peer_memory.h"

#include "worker/shm/shared_memory.h"

namespace farandole::worker::shm {

absl::StatusOr<char*> PeerMemory::At(Rank rank, int number, int64_t bytes) {
  SharedMapping& region = regions_[{rank.value(), number}];
  if (region.data() == nullptr) {
    absl::StatusOr<UniqueFd> fd = bootstrap_->Segment(SharedMemory::KeyOf(rank, number), bytes);
    if (!fd.ok()) return fd.status();
    absl::StatusOr<SharedMapping> mapping = SharedMapping::Map(*std::move(fd), bytes);
    if (!mapping.ok()) return mapping.status();
    region = *std::move(mapping);
  }
  return region.data();
}

}  // namespace farandole::worker::shm
