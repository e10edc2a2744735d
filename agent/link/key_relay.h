#ifndef FARANDOLE_AGENT_LINK_KEY_RELAY_H_
#define FARANDOLE_AGENT_LINK_KEY_RELAY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "agent/link/controller_link.h"
#include "agent/link/outstanding.h"
#include "base/event_loop.h"
#include "proto/messages.h"

namespace farandole::agent::link {

// Passes the workers' Put and Get on to the controller. All methods and callbacks on the loop; a callback never comes
// before the method that asked for it returns.
class KeyRelay {
 public:
  // Open calls of one owner; a worker waits for each of its peers at most.
  static constexpr int kCallsMax = 4096;

  using Owner = uint64_t;
  using Callback = std::function<void(const KeyReply&)>;

  // `link` outlives this.
  KeyRelay(EventLoop* loop, Outstanding* outstanding, const ControllerLink* link);
  ~KeyRelay();

  void PutFromLoop(Owner owner, const LocalPut& put, Callback callback);
  void GetFromLoop(Owner owner, const LocalGet& get, Callback callback);
  // Ends the open calls of an owner; its callbacks will not come any more.
  void CancelFromLoop(Owner owner);

 private:
  struct Call;

  // Null if the call cannot be made; the callback has been posted with the reason.
  std::shared_ptr<Call> NewCall(Owner owner, uint64_t request_id, int64_t timeout_ms, Callback callback);
  // The tag of the end of a call.
  void* Step(const std::shared_ptr<Call>& call);
  void Done(const std::shared_ptr<Call>& call);

  EventLoop* const loop_;
  Outstanding* const outstanding_;
  const ControllerLink* const link_;
  std::multimap<Owner, std::shared_ptr<Call>> calls_;
  // Guards what gRPC posts after this is gone.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace farandole::agent::link

#endif  // FARANDOLE_AGENT_LINK_KEY_RELAY_H_
