#ifndef FARANDOLE_AGENT_LOCAL_LOCAL_SERVER_H_
#define FARANDOLE_AGENT_LOCAL_LOCAL_SERVER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "agent/local/local_connection.h"
#include "base/clock.h"
#include "base/event_loop.h"
#include "base/listener.h"
#include "base/unique_fd.h"

namespace farandole::agent::local {

// Takes connections of workers on an abstract Unix socket, from processes of our own user only. Who does not attach
// holds little and not for long: few may wait for it at a time, of which the eldest makes room, each for `attach_ms`.
// On the loop.
class LocalServer {
 public:
  static constexpr int kConnectionsMax = 4096;
  static constexpr size_t kUnattachedMax = 128;
  static constexpr int64_t kAttachMs = 10000;

  LocalServer(EventLoop* loop, LocalConnection::Callbacks callbacks, int64_t attach_ms = kAttachMs);
  ~LocalServer();

  // ALREADY_EXISTS: somebody else listens under this name.
  absl::Status ListenFromLoop(const std::string& name);

 private:
  using Connection = std::shared_ptr<LocalConnection>;
  struct Unattached {
    Connection connection;
    TimePoint due;
  };

  void Welcome(UniqueFd socket);
  // Lets go of those that have attached or are due.
  void LookAtUnattached();
  // Without Refused, which is for ever: a worker that was stopped meanwhile comes again.
  void CloseEldest();

  EventLoop* const loop_;
  const int64_t attach_ms_;
  LocalConnection::Callbacks callbacks_;
  UniqueFd socket_;
  Listener listener_;
  std::set<Connection> connections_;
  std::deque<Unattached> unattached_;  // the eldest first; also some that have attached since it was last looked at
  EventLoop::TimerId unattached_timer_ = 0;
};

}  // namespace farandole::agent::local

#endif  // FARANDOLE_AGENT_LOCAL_LOCAL_SERVER_H_
