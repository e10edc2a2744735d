#ifndef FARANDOLE_WORKER_SESSION_EFFECTS_H_
#define FARANDOLE_WORKER_SESSION_EFFECTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "proto/messages.h"
#include "worker/session/work.h"

namespace farandole::worker::session {

// A batch that the data plane gives back unexecuted (W8).
struct TakeBack {
  uint32_t process_set = 0;
  collective::Instance instance;
  std::vector<std::string> names;  // of its requests, for the session itself
};

// What a step of the session asks for, to be done in this order before the next step.
struct Effects {
  std::vector<WorkerUp> send;
  std::vector<Work> work;                           // for the executor
  std::vector<TakeBack> withdraw;                   // from the executor, which answers each with Withdrawn
  std::vector<std::shared_ptr<Operation>> endings;  // open requests that end with Session::end()
  std::string notice;                               // for the log, if not empty
  bool joined = false;                              // Session::view() is there now
  bool removed = false;                             // abort the data plane; what it has ends with end() too
};

}  // namespace farandole::worker::session

#endif  // FARANDOLE_WORKER_SESSION_EFFECTS_H_
