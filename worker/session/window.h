#ifndef FARANDOLE_WORKER_SESSION_WINDOW_H_
#define FARANDOLE_WORKER_SESSION_WINDOW_H_

#include <cstddef>

namespace farandole::worker::session {

// W of docs/replay.md: how many batches of a kind may have been started and not be complete.
struct Window {
  size_t host = 1;
  // Final ones: the host only hands them over, and goes on while an accelerator works on them one after the other.
  size_t final = 1;

  size_t For(bool of_final) const { return of_final ? final : host; }
};

}  // namespace farandole::worker::session

#endif  // FARANDOLE_WORKER_SESSION_WINDOW_H_
