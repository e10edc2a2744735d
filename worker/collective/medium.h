#ifndef FARANDOLE_WORKER_COLLECTIVE_MEDIUM_H_
#define FARANDOLE_WORKER_COLLECTIVE_MEDIUM_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/types.h"
#include "worker/collective/bootstrap.h"
#include "worker/collective/communicator.h"
#include "worker/collective/group.h"
#include "worker/device/device.h"

namespace farandole::worker::collective {

// A way for members to communicate, as it is registered (select/media.h) and named in the selector's table.
struct Medium {
  std::string name;
  // Whose memory its collectives work on.
  std::vector<DeviceKind> memory = {DeviceKind::kHost};
  // OK if this process can take part, otherwise why not; null: always OK. All members are asked before any of them
  // makes a communicator, so that they go on together without.
  std::function<absl::Status()> usable;
  // Blocks until all members have theirs. UNAVAILABLE means that all members got this answer and go on to the next row
  // of the table together; anything else fails the selection. The bootstrap outlives the communicator. `device`: of the
  // collective that is the first to need it, null for host memory.
  using Make = absl::StatusOr<std::unique_ptr<Communicator>>(const Group&, Bootstrap*, device::Device* device);
  std::function<Make> make;
};

}  // namespace farandole::worker::collective

#endif  // FARANDOLE_WORKER_COLLECTIVE_MEDIUM_H_
