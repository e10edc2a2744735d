#ifndef FARANDOLE_WORKER_NCCL_MEETING_H_
#define FARANDOLE_WORKER_NCCL_MEETING_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "worker/collective/bootstrap.h"
#include "worker/collective/group.h"
#include "worker/cuda/cuda_device.h"
#include "worker/cuda/nccl_library.h"

namespace farandole::worker::nccl {

// What a member brings along.
struct Guest {
  const cuda::NcclLibrary* library;
  const cuda::CudaDevice* device;  // null: none, since it has joined and only adds zeros
  // Not OK: why it cannot take part after all.
  absl::Status can;
  // Whether NCCL serves several ranks on one device.
  bool shares_devices = false;
  // What NCCL was told to take for the name of the host: ranks on one device that differ in it pass for several hosts.
  // Empty: its own name.
  std::string host_id = {};
};

// How the members of a group come to one communicator of NCCL's: its id, made by the first. `topic` is unique within
// the group's key. UNAVAILABLE, on all of them: one cannot, they have different releases of NCCL, or two use one
// device, which NCCL does not serve. Otherwise as collective::Agree.
absl::StatusOr<cuda::ncclUniqueId> Meet(const collective::Group& group, const std::string& topic, const Guest& guest,
                                        collective::Bootstrap* bootstrap, TimePoint deadline);

}  // namespace farandole::worker::nccl

#endif  // FARANDOLE_WORKER_NCCL_MEETING_H_
