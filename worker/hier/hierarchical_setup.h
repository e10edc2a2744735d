#ifndef FARANDOLE_WORKER_HIER_HIERARCHICAL_SETUP_H_
#define FARANDOLE_WORKER_HIER_HIERARCHICAL_SETUP_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "transport/transport.h"
#include "worker/collective/blocking_communicator.h"
#include "worker/collective/bootstrap.h"
#include "worker/collective/group.h"
#include "worker/collective/host_map.h"
#include "worker/schedule/scheduled_communicator.h"
#include "worker/shm/shm_communicator.h"

namespace farandole::worker::hier {

// The same on all members.
struct HierarchicalOptions {
  shm::ShmOptions shm;
  schedule::ScheduledOptions scheduled;
  // Largest operand for which only the leaders of the hosts talk across them; beyond it all members do, if they can.
  int64_t leaders_bytes_max = 64 << 10;
  // Of a larger operand, what crosses hosts at a time, of all members of a host together.
  int64_t part_bytes = 2 << 20;
};

// The two layers of a member.
struct HierarchicalLayers {
  // Members of this host. `shm` is the same, or null if this member is alone there.
  std::unique_ptr<collective::BlockingCommunicator> local;
  shm::ShmCommunicator* shm = nullptr;
  // One member of each host, at the position of the host. Null if this member does not go across.
  std::unique_ptr<collective::BlockingCommunicator> across;
};

// Blocks. Shared memory is agreed on by all: leaders leave the answer of their host under "hier/<key>/<host>", position
// 0 what follows from all answers under "hier/<key>/verdict".
//   UNAVAILABLE    shared memory is refused on one host; the same answer, with the reason, on all members
//   anything else  no agreement, or no connection across; members may differ
absl::StatusOr<HierarchicalLayers> SetUpLayers(const collective::Group& group, const collective::HostMap& map,
                                               transport::Transport* transport, collective::Bootstrap* bootstrap,
                                               const HierarchicalOptions& options);

}  // namespace farandole::worker::hier

#endif  // FARANDOLE_WORKER_HIER_HIERARCHICAL_SETUP_H_
