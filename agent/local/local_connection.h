#ifndef FARANDOLE_AGENT_LOCAL_LOCAL_CONNECTION_H_
#define FARANDOLE_AGENT_LOCAL_LOCAL_CONNECTION_H_

#include <functional>
#include <memory>

#include "base/event_loop.h"
#include "base/unix_socket.h"
#include "proto/codec/frame.h"
#include "proto/messages.h"

namespace farandole::agent::local {

// A worker's connection, seen from the agent. Who has not attached may say frames of kUnattachedFrameBytesMax. All
// methods and callbacks on the loop. Held by shared_ptr: a callback may drop it.
class LocalConnection : public std::enable_shared_from_this<LocalConnection> {
 public:
  // Attach is much smaller.
  static constexpr size_t kUnattachedFrameBytesMax = 16 << 10;

  struct Callbacks {
    std::function<void(const std::shared_ptr<LocalConnection>&, const LocalUp&)> on_message;
    // Once, however it ended; `status` says how. OK: CloseFromLoop() was called.
    std::function<void(const std::shared_ptr<LocalConnection>&, const absl::Status& status)> on_closed;
  };

  LocalConnection(EventLoop* loop, UniqueFd socket, PeerCredentials peer, const Callbacks* callbacks);
  ~LocalConnection();

  void StartFromLoop();
  void SendFromLoop(const LocalDown& message, UniqueFd fd = UniqueFd());
  // The same for bytes that are encoded already.
  void SendBytesFromLoop(absl::string_view bytes, UniqueFd fd = UniqueFd());
  // Handles what has come and not been read yet: the peer's last words.
  void DrainFromLoop();
  void CloseFromLoop() { Close(absl::OkStatus()); }

  const PeerCredentials& peer() const { return peer_; }
  // Of the worker that has attached; 0 before. Set by the owner.
  Incarnation incarnation() const { return incarnation_; }
  // From now on frames may have kFrameBytesMax bytes.
  void AttachFromLoop(Incarnation incarnation);

 private:
  void Handle(uint32_t events);
  // False when nothing more can come.
  bool ReadOnce();
  void Close(const absl::Status& status);
  void UpdateEvents();

  EventLoop* const loop_;
  FrameSocket socket_;
  const PeerCredentials peer_;
  const Callbacks* const callbacks_;
  Incarnation incarnation_;
  uint32_t events_ = 0;
  bool open_ = true;
};

}  // namespace farandole::agent::local

#endif  // FARANDOLE_AGENT_LOCAL_LOCAL_CONNECTION_H_
