#ifndef FARANDOLE_CONTROLLER_REPLAY_ROTATION_H_
#define FARANDOLE_CONTROLLER_REPLAY_ROTATION_H_

#include "absl/types/optional.h"
#include "proto/types.h"

namespace farandole::controller::replay {

// The batches of `known` from that one on with which they come in about the order of `found`, which has the same
// tensors. None if they do not, from whichever on: what `found` has first may be in one batch with what it has last,
// and who has submitted the one would wait a whole step for the other.
absl::optional<Period> RotatedLike(const Period& known, const Period& found);

}  // namespace farandole::controller::replay

#endif  // FARANDOLE_CONTROLLER_REPLAY_ROTATION_H_
