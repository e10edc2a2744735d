#ifndef FARANDOLE_CONTROLLER_HUB_AGENT_STREAM_H_
#define FARANDOLE_CONTROLLER_HUB_AGENT_STREAM_H_

#include <memory>
#include <string>

#include "absl/status/status.h"

namespace farandole::controller::hub {

using SharedBytes = std::shared_ptr<const std::string>;

// The way down to one agent, as the hub sees it. Both methods from any thread, never blocking, no-ops after the end.
class AgentStream {
 public:
  virtual ~AgentStream() = default;
  // Queues an encoded AgentDown: `head` and, unless it is null, `body` behind it, which other streams share. Closes the
  // stream with ABORTED when too many bytes are held.
  virtual void Send(std::string head, SharedBytes body) = 0;
  virtual void Close(absl::Status status) = 0;
  // Address of the other end, for who reads a log; "" if it is not known.
  virtual std::string peer() const { return ""; }
};

}  // namespace farandole::controller::hub

#endif  // FARANDOLE_CONTROLLER_HUB_AGENT_STREAM_H_
