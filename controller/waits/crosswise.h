#ifndef FARANDOLE_CONTROLLER_WAITS_CROSSWISE_H_
#define FARANDOLE_CONTROLLER_WAITS_CROSSWISE_H_

#include <string>
#include <vector>

#include "controller/types/open_wait.h"

namespace farandole::controller::waits {

// The ranks in a crosswise wait (docs/replay.md, section 8): all of them have open requests, and each of these lacks
// one of them, so that none can be answered before one of them submits something else. The greatest such set within
// `candidates`; empty if there is none. A rank that is merely late has nothing open and is in no such set; nor are
// those that wait for it alone. `waits` must be all open requests of the candidates, begun instances and what is held
// back by those that are kept included.
//
// Starts with all candidates that have something open, and drops those with a request that lacks none of the rest until
// nothing changes: as many passes as the longest chain of such requests, at most a few dozen. After that nothing is
// found; the next look may.
RankSet FindCrosswise(const std::vector<OpenWait>& waits, const RankSet& candidates);

// "ranks 0 and 1 wait for `A`, which rank 2 has not submitted; rank 2 waits for `B`, which ...".
std::string CrosswiseText(const std::vector<OpenWait>& waits, const RankSet& ranks);

}  // namespace farandole::controller::waits

#endif  // FARANDOLE_CONTROLLER_WAITS_CROSSWISE_H_
