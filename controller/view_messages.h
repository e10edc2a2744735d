#ifndef FARANDOLE_CONTROLLER_VIEW_MESSAGES_H_
#define FARANDOLE_CONTROLLER_VIEW_MESSAGES_H_

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "controller/actions.h"
#include "controller/agent_stream.h"
#include "proto/hosted_view.h"
#include "proto/messages.h"

namespace farandole {

// The messages that bring a view to agents: all of it to the agents of the first hosts, to every other one the part
// that is common to all and its own host (docs/decisions/011-views.md).
class ViewMessages {
 public:
  explicit ViewMessages(const View& view);

  // As AgentStream::Send takes it.
  struct Message {
    std::string head;
    SharedBytes body;
  };
  Message For(const Route& route) const;

 private:
  const HostedView view_;
  SharedBytes all_, rest_;
  absl::flat_hash_map<Incarnation, size_t> hosts_;  // in view_.hosts, by member
};

}  // namespace farandole

#endif  // FARANDOLE_CONTROLLER_VIEW_MESSAGES_H_
