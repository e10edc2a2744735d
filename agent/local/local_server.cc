#include "agent/local/local_server.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/unix_socket.h"

namespace farandole::agent::local {

LocalServer::LocalServer(EventLoop* loop, LocalConnection::Callbacks callbacks, int64_t attach_ms)
    : loop_(loop),
      attach_ms_(attach_ms),
      callbacks_(std::move(callbacks)),
      listener_(loop, [this](UniqueFd socket) { Welcome(std::move(socket)); }) {
  callbacks_.on_closed = [this, on_closed = std::move(callbacks_.on_closed)](
                             const std::shared_ptr<LocalConnection>& connection, const absl::Status& status) {
    connections_.erase(connection);
    const auto it = std::find_if(unattached_.begin(), unattached_.end(),
                                 [&](const Unattached& one) { return one.connection == connection; });
    if (it != unattached_.end()) unattached_.erase(it);
    on_closed(connection, status);
  };
}

LocalServer::~LocalServer() {
  loop_->CancelTimerFromLoop(unattached_timer_);
  listener_.StopFromLoop();
}

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
  LookAtUnattached();
  if (unattached_.size() >= kUnattachedMax) CloseEldest();
  connections_.insert(connection);
  unattached_.push_back({connection, loop_->Now().PlusMs(attach_ms_)});
  if (unattached_.size() == 1) LookAtUnattached();
  connection->StartFromLoop();
}

void LocalServer::CloseEldest() {
  // Closing takes it out of `unattached_`.
  const Connection eldest = unattached_.front().connection;
  eldest->CloseFromLoop();
}

void LocalServer::LookAtUnattached() {
  const TimePoint now = loop_->Now();
  unattached_.erase(
      std::remove_if(unattached_.begin(), unattached_.end(),
                     [](const Unattached& one) { return one.connection->incarnation() != Incarnation(); }),
      unattached_.end());
  while (!unattached_.empty() && unattached_.front().due <= now) CloseEldest();
  loop_->CancelTimerFromLoop(unattached_timer_);
  unattached_timer_ = 0;
  if (unattached_.empty()) return;
  unattached_timer_ = loop_->AddTimerFromLoop(unattached_.front().due, [this] { LookAtUnattached(); });
}

}  // namespace farandole::agent::local
