#ifndef FARANDOLE_AGENT_LOCAL_SERVER_H_
#define FARANDOLE_AGENT_LOCAL_SERVER_H_

#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "agent/local_connection.h"
#include "base/event_loop.h"
#include "base/listener.h"
#include "base/unique_fd.h"

namespace farandole {

// Takes connections of workers on an abstract Unix socket, from processes of our own user only. On the loop.
class LocalServer {
 public:
  static constexpr int kConnectionsMax = 4096;

  LocalServer(EventLoop* loop, LocalConnection::Callbacks callbacks);
  ~LocalServer();

  // ALREADY_EXISTS: somebody else listens under this name.
  absl::Status ListenFromLoop(const std::string& name);

 private:
  void Welcome(UniqueFd socket);

  EventLoop* const loop_;
  LocalConnection::Callbacks callbacks_;
  UniqueFd socket_;
  Listener listener_;
  std::set<std::shared_ptr<LocalConnection>> connections_;
};

}  // namespace farandole

#endif  // FARANDOLE_AGENT_LOCAL_SERVER_H_
