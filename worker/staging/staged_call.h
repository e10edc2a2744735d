#ifndef FARANDOLE_WORKER_STAGING_STAGED_CALL_H_
#define FARANDOLE_WORKER_STAGING_STAGED_CALL_H_

#include <cstdint>
#include <vector>

#include "worker/collective/collective.h"
#include "worker/staging/chunks.h"
#include "worker/staging/device_copies.h"

namespace farandole::worker::staging {

// A collective on a device's memory as one on the host's, and what is copied before and after it.
struct StagedCall {
  collective::Collective collective;
  std::vector<Copy> loads, stores;
  int64_t bytes = 0;  // of the host's memory
};

// Of the member at `position`, in `memory` of the host; null: to count its bytes, or of one that only adds zeros.
StagedCall Stage(const Call& call, int position, char* memory);

}  // namespace farandole::worker::staging

#endif  // FARANDOLE_WORKER_STAGING_STAGED_CALL_H_
