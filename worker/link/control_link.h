#ifndef FARANDOLE_WORKER_LINK_CONTROL_LINK_H_
#define FARANDOLE_WORKER_LINK_CONTROL_LINK_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "proto/messages.h"

namespace farandole::worker::link {

// The way from a worker to its controller: over the agent's socket, or to controller logic inside a lone process.
class ControlLink {
 public:
  // Called on the control loop, never inside a call of this class other than StartFromLoop.
  class Listener {
   public:
    virtual ~Listener() = default;
    // The way to the controller opened or broke. Every opening wants a new Hello; what was sent before it may be lost.
    virtual void OnLinkState(const LinkState& state) = 0;
    virtual void OnReceived(WorkerDown message) = 0;
    // For people, about once a second; generation 0: nothing to say.
    virtual WorkerReport Report() = 0;
  };

  // When the control loop runs no more.
  virtual ~ControlLink() = default;

  virtual void StartFromLoop(Listener* listener) = 0;

  // Any thread, never blocks; messages go out in the order of the calls. Dropped while the way is not open: the Hello
  // of the next opening says it again.
  virtual void Send(const WorkerUp& message) = 0;

  // What Bootstrap (worker/collective/bootstrap.h) offers, for one generation. Blocking; any thread but the control
  // loop's.
  virtual absl::Status Put(const GenerationId& generation, const std::string& key, const std::string& value) = 0;
  virtual absl::StatusOr<std::string> Get(const GenerationId& generation, const std::string& key,
                                          uint32_t timeout_ms) = 0;
  virtual absl::StatusOr<UniqueFd> Segment(const GenerationId& generation, const std::string& key,
                                           uint64_t size_bytes) = 0;
  // Any thread: ends the blocking calls above, those under way and later ones, with ABORTED and this reason.
  virtual void EndWaits(const std::string& reason) = 0;
};

}  // namespace farandole::worker::link

#endif  // FARANDOLE_WORKER_LINK_CONTROL_LINK_H_
