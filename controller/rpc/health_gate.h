#ifndef FARANDOLE_CONTROLLER_RPC_HEALTH_GATE_H_
#define FARANDOLE_CONTROLLER_RPC_HEALTH_GATE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/event_loop.h"
#include "base/listener.h"
#include "base/unique_fd.h"
#include "controller/rpc/frame_limit.h"

namespace farandole::controller::rpc {

// Stands before the gRPC server that answers health checks, which anybody may ask: passes bytes on in both directions,
// and bounds what the server gets to see. At most kSlots connections at a time, a further one takes the place of the
// oldest; kBytesPerSecond for each slot, whoever has it; header blocks as FrameLimit allows. On the owner's loop,
// which has stopped or not begun when this is destroyed.
class HealthGate {
 public:
  static constexpr size_t kSlots = 16;
  static constexpr size_t kBytesPerSecond = 4096;

  // `hand_over` gets the server's ends. UNAVAILABLE: cannot be bound. From the loop, or before it runs.
  static absl::StatusOr<std::unique_ptr<HealthGate>> Open(const std::string& listen, EventLoop* loop,
                                                          std::function<void(UniqueFd)> hand_over);
  ~HealthGate();

  int port() const { return port_; }

 private:
  struct Slot {
    UniqueFd client;
    UniqueFd server;
    std::unique_ptr<FrameLimit> limit;
    std::string up;    // from the client, not yet with the server
    std::string down;  // and back
    size_t bytes_left = kBytesPerSecond;
    uint64_t since = 0;  // 0: free
  };

  HealthGate(UniqueFd socket, int port, EventLoop* loop, std::function<void(UniqueFd)> hand_over);
  void Welcome(UniqueFd connection);
  void Refill();
  void Move(Slot* slot, uint32_t events);
  // Both false at the end of the connection.
  bool MoveUp(Slot* slot);
  bool MoveDown(Slot* slot);
  void Watch(Slot* slot);
  void Free(Slot* slot);

  const UniqueFd socket_;
  const int port_;
  EventLoop* const loop_;
  const std::function<void(UniqueFd)> hand_over_;
  std::array<Slot, kSlots> slots_;
  uint64_t welcomed_ = 0;
  EventLoop::TimerId refill_ = 0;
  Listener listener_;
};

}  // namespace farandole::controller::rpc

#endif  // FARANDOLE_CONTROLLER_RPC_HEALTH_GATE_H_
