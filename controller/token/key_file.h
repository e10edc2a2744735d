#ifndef FARANDOLE_CONTROLLER_TOKEN_KEY_FILE_H_
#define FARANDOLE_CONTROLLER_TOKEN_KEY_FILE_H_

#include <string>
#include <utility>

#include "base/event_loop.h"
#include "controller/hub/log.h"
#include "controller/token/key_ring.h"

namespace farandole::controller::token {

// Reads the keys again when their file has changed. It reads the file each time: Kubernetes exchanges a mounted Secret
// by a link to another folder, and what stat() and inotify tell of the path then depends on how it was done. Streams go
// on; who connects, or calls anew, needs a token of a present key.
//
// New keys hold once two looks in a row have found them: an editor may be in the middle of the file, and an agent that
// is refused does not come again.
class KeyFile {
 public:
  static constexpr int64_t kLookMs = 1000;

  // `keys` has what the file held. All outlive this.
  KeyFile(std::string path, KeyRing* keys, EventLoop* loop, const hub::Log* log)
      : path_(std::move(path)), keys_(keys), loop_(loop), log_(log) {}
  // The loop has stopped, or not begun.
  ~KeyFile() { loop_->CancelTimerFromLoop(timer_); }
  KeyFile(const KeyFile&) = delete;
  KeyFile& operator=(const KeyFile&) = delete;

  // Looks every kLookMs from then on.
  void WatchFromLoop();
  // Once. A file that cannot be read, or holds no keys, changes nothing and is said once, until it is good again or
  // wrong in another way.
  void LookFromLoop();

 private:
  const std::string path_;
  KeyRing* const keys_;
  EventLoop* const loop_;
  const hub::Log* const log_;
  ControllerKeys found_;   // by the last look, in place of those that hold; else empty
  std::string complaint_;  // the last one; "" if the file is good
  EventLoop::TimerId timer_ = 0;
};

}  // namespace farandole::controller::token

#endif  // FARANDOLE_CONTROLLER_TOKEN_KEY_FILE_H_
