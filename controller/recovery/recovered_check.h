#ifndef FARANDOLE_CONTROLLER_RECOVERY_RECOVERED_CHECK_H_
#define FARANDOLE_CONTROLLER_RECOVERY_RECOVERED_CHECK_H_

#include <string>

#include "controller/recovery/gather.h"

namespace farandole::controller::recovery {

// Why what the members have told a restarted controller cannot be; "" = it can. All that is used as an index, counted
// on from, or copied per entry afterwards is checked here: ranks against the size, positions in the log, phases,
// process sets and what has begun.
std::string FindImpossible(const Recovered& found);

}  // namespace farandole::controller::recovery

#endif  // FARANDOLE_CONTROLLER_RECOVERY_RECOVERED_CHECK_H_
