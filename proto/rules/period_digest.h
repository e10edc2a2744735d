#ifndef FARANDOLE_PROTO_RULES_PERIOD_DIGEST_H_
#define FARANDOLE_PROTO_RULES_PERIOD_DIGEST_H_

#include <cstdint>

#include "proto/types.h"

namespace farandole {

// The same number on every machine for equal periods; another one, as good as always, for others. Tells workers of one
// generation apart that believe in different replays, which would be a defect of ours; no defence against forgery.
uint64_t Digest(const Period& period);

}  // namespace farandole

#endif  // FARANDOLE_PROTO_RULES_PERIOD_DIGEST_H_
