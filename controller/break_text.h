#ifndef FARANDOLE_CONTROLLER_BREAK_TEXT_H_
#define FARANDOLE_CONTROLLER_BREAK_TEXT_H_

#include <string>

#include "proto/messages.h"

namespace farandole {

// Completes "rank 1 (pid 7 on host b) breaks the replay: ...".
std::string BreakText(const Break& said);

}  // namespace farandole

#endif  // FARANDOLE_CONTROLLER_BREAK_TEXT_H_
