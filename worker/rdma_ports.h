#ifndef FARANDOLE_WORKER_RDMA_PORTS_H_
#define FARANDOLE_WORKER_RDMA_PORTS_H_

#include <string>

#include "absl/status/statusor.h"

namespace farandole::worker {

// The RDMA ports that this process uses, or would use, by what its environment says: a sentence. Opens the devices and
// closes them. UNAVAILABLE: none can be used, and why. INVALID_ARGUMENT: a variable names what is not there.
absl::StatusOr<std::string> RdmaPorts();

}  // namespace farandole::worker

#endif  // FARANDOLE_WORKER_RDMA_PORTS_H_
