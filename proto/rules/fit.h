#ifndef FARANDOLE_PROTO_RULES_FIT_H_
#define FARANDOLE_PROTO_RULES_FIT_H_

#include "proto/types.h"

namespace farandole {

// Whether a tensor submitted with one signature takes part in a batch dispatched with the other: equal but for the
// priority, which orders what is ready and may differ between ranks.
bool Fits(const Signature& a, const Signature& b);

}  // namespace farandole

#endif  // FARANDOLE_PROTO_RULES_FIT_H_
