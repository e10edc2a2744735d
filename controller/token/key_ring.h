#ifndef FARANDOLE_CONTROLLER_TOKEN_KEY_RING_H_
#define FARANDOLE_CONTROLLER_TOKEN_KEY_RING_H_

#include "controller/files/exchanged.h"
#include "controller/token/controller_keys.h"

namespace farandole::controller::token {

// The keys that hold at present.
using KeyRing = files::Exchanged<ControllerKeys>;

}  // namespace farandole::controller::token

#endif  // FARANDOLE_CONTROLLER_TOKEN_KEY_RING_H_
