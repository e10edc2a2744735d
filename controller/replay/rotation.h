#ifndef FARANDOLE_CONTROLLER_REPLAY_ROTATION_H_
#define FARANDOLE_CONTROLLER_REPLAY_ROTATION_H_

#include "absl/types/optional.h"
#include "proto/types.h"

namespace farandole::controller::replay {

// The batches of `known` from that one on with which `found`, which has the same tensors, begins: where all that is
// left of `known` comes first there, in whatever order. `known` itself if there is no such place, as where each
// repetition has another order. None if it is inside of a batch: who has submitted one of its tensors would wait nearly
// a whole repetition for the others.
absl::optional<Period> RotatedLike(const Period& known, const Period& found);

}  // namespace farandole::controller::replay

#endif  // FARANDOLE_CONTROLLER_REPLAY_ROTATION_H_
