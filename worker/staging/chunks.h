#ifndef FARANDOLE_WORKER_STAGING_CHUNKS_H_
#define FARANDOLE_WORKER_STAGING_CHUNKS_H_

#include <cstdint>
#include <vector>

#include "worker/collective/collective.h"

namespace farandole::worker::staging {

// What a collective does, without where and when.
using Call = decltype(collective::Collective::what);

// Calls that do together, one after the other, what `whole` does: an allreduce or a broadcast in parts of about
// `chunk_bytes` at most, everything else as it is. At least one. Cut by counts and types alone, so that all members cut
// alike, also one that only adds zeros.
std::vector<Call> Cut(const Call& whole, int64_t chunk_bytes);

}  // namespace farandole::worker::staging

#endif  // FARANDOLE_WORKER_STAGING_CHUNKS_H_
