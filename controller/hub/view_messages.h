#ifndef FARANDOLE_CONTROLLER_HUB_VIEW_MESSAGES_H_
#define FARANDOLE_CONTROLLER_HUB_VIEW_MESSAGES_H_

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "controller/hub/agent_stream.h"
#include "controller/types/actions.h"
#include "proto/messages.h"
#include "proto/rules/hosted_view.h"

namespace farandole::controller::hub {

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

}  // namespace farandole::controller::hub

#endif  // FARANDOLE_CONTROLLER_HUB_VIEW_MESSAGES_H_
