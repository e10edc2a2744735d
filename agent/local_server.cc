#include "agent/local_server.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/unix_socket.h"

namespace farandole {

LocalServer::LocalServer(EventLoop* loop, LocalConnection::Callbacks callbacks)
    : loop_(loop), callbacks_(std::move(callbacks)) {
  callbacks_.on_closed = [this, on_closed = std::move(callbacks_.on_closed)](
                             const std::shared_ptr<LocalConnection>& connection, const absl::Status& status) {
    connections_.erase(connection);
    on_closed(connection, status);
  };
}

LocalServer::~LocalServer() {
  if (listener_.valid()) loop_->RemoveFdFromLoop(listener_.get());
}

absl::Status LocalServer::ListenFromLoop(const std::string& name) {
  absl::StatusOr<UniqueFd> listener = ListenUnix(name);
  if (!listener.ok()) return listener.status();
  listener_ = std::move(*listener);
  loop_->AddFdFromLoop(listener_.get(), EPOLLIN, [this](uint32_t) { Accept(); });
  return absl::OkStatus();
}

void LocalServer::Accept() {
  UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket.valid()) return;
  const absl::StatusOr<PeerCredentials> peer = CheckPeer(socket.get());
  const bool full = connections_.size() >= kConnectionsMax;
  auto connection =
      std::make_shared<LocalConnection>(loop_, std::move(socket), peer.ok() ? *peer : PeerCredentials(), &callbacks_);
  if (!peer.ok() || full) {
    connection->SendFromLoop(LocalDown(Refused{
        full ? absl::StrCat("the agent serves ", kConnectionsMax, " connections already") : peer.status().ToString()}));
    return;
  }
  connections_.insert(connection);
  connection->StartFromLoop();
}

}  // namespace farandole
