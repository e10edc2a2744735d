#ifndef FARANDOLE_AGENT_KEY_RELAY_H_
#define FARANDOLE_AGENT_KEY_RELAY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "agent/controller_link.h"
#include "agent/outstanding.h"
#include "base/clock.h"
#include "base/event_loop.h"
#include "proto/messages.h"

namespace farandole {

// Passes the workers' Put and Get on to the controller. What is asked while the controller is away, or does not yet
// know a generation that an earlier life of it opened, is asked again until its time is over; a new life is told again
// what this host's workers had put. All methods and callbacks on the loop; a callback never comes before the method
// that asked for it returns.
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
  // A stream to the controller has opened, maybe to a new life of it.
  void LinkUpFromLoop();
  void StopFromLoop();

 private:
  struct Attempt;
  struct Call {
    Owner owner = 0;
    uint64_t request_id = 0;
    bool puts = false;
    GenerationId generation;
    std::string key;
    std::string value;
    TimePoint deadline;
    Callback callback;
    std::shared_ptr<Attempt> attempt;  // null between attempts
    EventLoop::TimerId retry = 0;
  };
  using CallRef = std::shared_ptr<Call>;

  // Owner of what is put again.
  static constexpr Owner kAgent = 0;

  void Begin(CallRef call);
  void Try(const CallRef& call);
  void TryLater(const CallRef& call);
  void Done(const CallRef& call, const Attempt& attempt);
  void Keep(const Call& call);
  std::multimap<Owner, CallRef>::iterator Find(const CallRef& call);

  EventLoop* const loop_;
  Outstanding* const outstanding_;
  const ControllerLink* const link_;
  std::multimap<Owner, CallRef> calls_;
  // Put by this host's workers in the newest generation; the controller bounds it.
  GenerationId kept_generation_;
  std::map<std::string, std::string> kept_;
  // Guards what gRPC posts after this is gone.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace farandole

#endif  // FARANDOLE_AGENT_KEY_RELAY_H_
