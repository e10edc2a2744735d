#ifndef FARANDOLE_CONTROLLER_REPLAY_BREAK_TEXT_H_
#define FARANDOLE_CONTROLLER_REPLAY_BREAK_TEXT_H_

#include <string>

#include "proto/messages.h"

namespace farandole::controller::replay {

// Completes "rank 1 (pid 7 on host b) breaks the replay: ...".
std::string BreakText(const Break& said);

}  // namespace farandole::controller::replay

#endif  // FARANDOLE_CONTROLLER_REPLAY_BREAK_TEXT_H_
