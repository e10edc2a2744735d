#include "agent/local_server.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/unix_socket.h"

namespace farandole {

LocalServer::LocalServer(EventLoop* loop, LocalConnection::Callbacks callbacks)
    : loop_(loop),
      callbacks_(std::move(callbacks)),
      listener_(loop, [this](UniqueFd socket) { Welcome(std::move(socket)); }) {
  callbacks_.on_closed = [this, on_closed = std::move(callbacks_.on_closed)](
                             const std::shared_ptr<LocalConnection>& connection, const absl::Status& status) {
    connections_.erase(connection);
    on_closed(connection, status);
  };
}

LocalServer::~LocalServer() { listener_.StopFromLoop(); }

absl::Status LocalServer::ListenFromLoop(const std::string& name) {
  absl::StatusOr<UniqueFd> socket = ListenUnix(name);
  if (!socket.ok()) return socket.status();
  socket_ = *std::move(socket);
  listener_.StartFromLoop(socket_.get());
  return absl::OkStatus();
}

void LocalServer::Welcome(UniqueFd socket) {
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
