#ifndef FARANDOLE_WORKER_SHM_SHM_SETUP_H_
#define FARANDOLE_WORKER_SHM_SHM_SETUP_H_

#include "absl/status/statusor.h"
#include "worker/collective/bootstrap.h"
#include "worker/collective/group.h"
#include "worker/shm/shm_segment.h"

namespace farandole::worker::shm {

// Gets and maps the group's segment on this member, touches the own control pages, and agrees with all other members
// that each of them has done the same. UNAVAILABLE: one of them could not, or asked for other sizes; all members get
// that answer. Any other failure is the control plane's and may differ between members.
absl::StatusOr<ShmSegment> SetUpShmSegment(const collective::Group& group, collective::Bootstrap* bootstrap,
                                           const ShmSegment::Sizes& sizes);

// CPUs that all ranks of a segment that has been set up may use together; the same answer on all of them.
double CpusOfAll(const ShmSegment& segment);

}  // namespace farandole::worker::shm

#endif  // FARANDOLE_WORKER_SHM_SHM_SETUP_H_
