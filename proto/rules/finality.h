#ifndef FARANDOLE_PROTO_RULES_FINALITY_H_
#define FARANDOLE_PROTO_RULES_FINALITY_H_

#include <vector>

#include "proto/types.h"

namespace farandole {

// The tensor for which an instance of these requests is final (docs/replay.md): it lies on an accelerator, so that what
// has been issued cannot be withdrawn. Nullptr: it can be. All members and the controller answer alike, since the
// signatures of an instance are equal.
const Request* FindFinal(const std::vector<Request>& requests);

}  // namespace farandole

#endif  // FARANDOLE_PROTO_RULES_FINALITY_H_
