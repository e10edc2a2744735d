#ifndef FARANDOLE_AGENT_LINK_CONTROLLER_LINK_H_
#define FARANDOLE_AGENT_LINK_CONTROLLER_LINK_H_

#include <grpcpp/channel.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/link/controller_channel.h"
#include "agent/link/controller_stream.h"
#include "agent/link/outstanding.h"
#include "agent/link/token_choice.h"
#include "base/completion_thread.h"
#include "base/event_loop.h"
#include "proto/messages.h"

namespace farandole::agent::link {

struct ControllerLinkConfig {
  ControllerChannelConfig channel;
  AgentHello hello;
  // Of this host, for its workers; empty: DataAddress says it.
  std::string data_address;
};

// The agent's one stream to the controller, opened again whenever it breaks, for ever: at most 250 ms after the
// controller can be reached again, 2 to 16 s after it had no room. Every attempt has a channel of its own, so that
// neither back-off nor a name's old address outlives an attempt. All methods and callbacks on the loop.
//
//   CONNECTING --welcome--> CONNECTED --stream ends--> WAITING --50 to 250 ms, or 2 to 16 s--> CONNECTING
//   any --wrong or expired token, and no other one; version, job name, a message that is too large--> PERMANENT
class ControllerLink {
 public:
  struct Callbacks {
    // On every change, and once at start.
    std::function<void(const LinkState&)> on_state;
    std::function<void(const ToWorkers&)> on_message;
    // What the next lease carries; asked for at each, at most once a second unless the controller wants more.
    std::function<std::vector<WorkerReport>()> take_reports;
  };

  ControllerLink(EventLoop* loop, Outstanding* outstanding, ControllerLinkConfig config, Callbacks callbacks);
  ~ControllerLink();

  void StartFromLoop();
  // Closes the stream and opens none again. No callback follows.
  void StopFromLoop();
  // Dropped unless connected: whoever needs more says it again after the next change to connected.
  void SendFromLoop(const AgentUp& message);

  const LinkState& state() const { return state_; }
  // Why a controller has no room for this agent, which none has welcomed; "" if one has, or something else is the
  // matter.
  const std::string& no_room() const { return no_room_; }
  // Where calls end; since StartFromLoop.
  CompletionThread* thread() const { return thread_.get(); }
  // For unary calls; null unless connected.
  std::shared_ptr<grpc::Channel> channel() const { return state_.connected ? channel_ : nullptr; }
  // The metadata of every call.
  void Authorize(grpc::ClientContext* context) const;

 private:
  void Connect();
  void Received(const std::string& bytes);
  void Welcomed(const AgentWelcome& welcome);
  int64_t NoRoomMs();
  void Lost(const grpc::Status& status);
  void SayLease();
  void SetState(bool connected, bool permanent, std::string text, std::string data_address = "");
  void CancelTimers();

  EventLoop* const loop_;
  Outstanding* const outstanding_;
  const ControllerLinkConfig config_;
  const Callbacks callbacks_;
  std::unique_ptr<CompletionThread> thread_;
  TokenChoice token_;
  LinkState state_;
  std::shared_ptr<grpc::Channel> channel_;
  std::shared_ptr<ControllerStream> stream_;
  std::string failure_;                  // why this end has cancelled the stream; "" if it has not
  bool too_large_ = false;               // it was a message that no stream carries
  uint64_t controller_incarnation_ = 0;  // the greatest seen
  uint32_t lease_interval_ms_ = 0;
  int64_t retry_ms_ = 0;
  std::string no_room_;
  int64_t no_room_ms_ = 0;
  bool stopped_ = false;
  EventLoop::TimerId retry_timer_ = 0;
  EventLoop::TimerId welcome_timer_ = 0;
  EventLoop::TimerId lease_timer_ = 0;
};

}  // namespace farandole::agent::link

#endif  // FARANDOLE_AGENT_LINK_CONTROLLER_LINK_H_
