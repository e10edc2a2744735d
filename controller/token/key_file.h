#ifndef FARANDOLE_CONTROLLER_TOKEN_KEY_FILE_H_
#define FARANDOLE_CONTROLLER_TOKEN_KEY_FILE_H_

#include <string>

#include "base/event_loop.h"
#include "controller/audit/audit_event.h"
#include "controller/files/file_watch.h"
#include "controller/hub/log.h"
#include "controller/token/key_ring.h"

namespace farandole::controller::token {

// Reads the keys again when their file has changed. Streams go on; who connects, or calls anew, needs a token of a
// present key: an agent that is refused does not come again.
class KeyFile : public files::FileWatch<ControllerKeys> {
 public:
  // `keys` has what the file held. All outlive this.
  KeyFile(const std::string& path, KeyRing* keys, EventLoop* loop, const hub::Log* log,
          audit::Audit audit = audit::NoAudit);
};

}  // namespace farandole::controller::token

#endif  // FARANDOLE_CONTROLLER_TOKEN_KEY_FILE_H_
