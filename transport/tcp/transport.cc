#include "transport/tcp/transport.h"

#include <utility>

#include "absl/synchronization/notification.h"
#include "base/socket_address.h"
#include "transport/handshake.h"
#include "transport/tcp/channel.h"
#include "transport/tcp/connection.h"
#include "transport/tcp/socket.h"

namespace farandole::transport::tcp {

TcpTransport::TcpTransport(TcpOptions options)
    : options_(std::move(options)),
      loop_("fdl-tcp"),
      acceptor_(&loop_, name(),
                [this](PrivateFd socket, const Pairing& pairing, TimePoint, Ready ready) {
                  OpenFromLoop(std::move(socket), pairing, std::move(ready));
                }),
      dialer_(&loop_, name(),
              [this](PrivateFd socket, const Pairing& pairing, TimePoint, Ready ready) {
                OpenFromLoop(std::move(socket), pairing, std::move(ready));
              }),
      started_(loop_.Start()) {}

TcpTransport::~TcpTransport() {
  if (!started_.ok()) return;
  absl::Notification stopped;
  loop_.Post([this, &stopped] {
    acceptor_.StopFromLoop();
    dialer_.StopFromLoop();
    stopped.Notify();
  });
  stopped.WaitForNotification();
  loop_.Join();
}

absl::Status TcpTransport::Usable() const {
  if (!started_.ok()) return absl::UnavailableError(started_.message());
  return ListenOn(options_.listen_host).status();
}

absl::StatusOr<std::string> TcpTransport::Listen() {
  if (!started_.ok()) return started_;
  absl::MutexLock lock(&mutex_);
  if (!address_.empty()) return address_;
  absl::StatusOr<PrivateFd> socket = ListenOn(options_.listen_host);
  if (!socket.ok()) return socket.status();
  absl::StatusOr<SocketAddress> address = LocalAddress(socket->get());
  if (!address.ok()) return address.status();
  address_ = FormatSocketAddress(*address);
  loop_.Post([this, shared = std::make_shared<PrivateFd>(*std::move(socket))] {
    acceptor_.StartFromLoop(std::move(*shared));
  });
  return address_;
}

absl::StatusOr<std::unique_ptr<Memory>> TcpTransport::Register(void* data, size_t bytes) {
  return Unregistered(data, bytes);
}

void TcpTransport::Connect(const std::string& address, const Pairing& pairing, TimePoint deadline, Ready ready) {
  loop_.Post([this, address, pairing, deadline, ready = std::move(ready)] {
    const absl::Status checked = CheckPairing(pairing);
    if (!checked.ok()) return ready(checked);
    dialer_.ConnectFromLoop(address, pairing, deadline, ready);
  });
}

void TcpTransport::Accept(const Pairing& pairing, TimePoint deadline, Ready ready) {
  loop_.Post([this, pairing, deadline, ready = std::move(ready)] {
    const absl::Status checked = CheckPairing(pairing);
    if (!checked.ok()) return ready(checked);
    acceptor_.AcceptFromLoop(pairing, deadline, ready);
  });
}

void TcpTransport::OpenFromLoop(PrivateFd socket, const Pairing& pairing, Ready ready) {
  auto connection = std::make_shared<Connection>(&loop_, std::move(socket), pairing.peer_id);
  connection->StartFromLoop();
  ready(std::unique_ptr<Channel>(std::make_unique<TcpChannel>(&loop_, std::move(connection))));
}

}  // namespace farandole::transport::tcp
