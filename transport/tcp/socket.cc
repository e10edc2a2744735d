#include "transport/tcp/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace farandole::transport::tcp {
namespace {

// A peer whose machine has vanished is found after 30 + 3 * 10 s of silence. TCP_USER_TIMEOUT would be quicker, but it
// also ends connections to a process that is merely stopped.
constexpr int kKeepAliveIdleSeconds = 30;
constexpr int kKeepAliveIntervalSeconds = 10;
constexpr int kKeepAliveProbes = 3;
// What was lost is sent again after 0.2, 0.4, 0.8 ... s, by default up to 120 s: a cut costs up to twice its time. With
// this bound it costs at most so much more, and a peer that has vanished while data was on its way is found after 15
// attempts, 61 s. Linux has the option since 6.15; before, the default stays.
constexpr int kRetransmitMsMax = 5000;
#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44
#endif

absl::Status Failed(absl::string_view what, const SocketAddress& address, int error) {
  return absl::UnavailableError(
      absl::StrCat("cannot ", what, " ", FormatSocketAddress(address), ": ", std::strerror(error)));
}

absl::StatusOr<PrivateFd> NewSocket(const SocketAddress& address) {
  PrivateFd fd(socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return Failed("make a socket for", address, errno);
  return fd;
}

void SetInt(int fd, int level, int option, int value) { setsockopt(fd, level, option, &value, sizeof value); }

}  // namespace

absl::StatusOr<PrivateFd> ListenOn(const std::string& host) {
  const absl::StatusOr<SocketAddress> address = MakeSocketAddress(host, 0);
  if (!address.ok()) return address.status();
  if (address->wildcard()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot listen on ", host, ": other hosts need the address of one interface; name it"));
  }
  absl::StatusOr<PrivateFd> fd = NewSocket(*address);
  if (!fd.ok()) return fd;
  const absl::Status listens = BindAndListen(fd->get(), *address);
  if (!listens.ok()) return absl::UnavailableError(listens.message());
  return fd;
}

absl::StatusOr<PrivateFd> StartConnect(const SocketAddress& address) {
  absl::StatusOr<PrivateFd> fd = NewSocket(address);
  if (!fd.ok()) return fd;
  if (connect(fd->get(), address.get(), address.length) != 0 && errno != EINPROGRESS && errno != EINTR) {
    return Failed("connect to", address, errno);
  }
  return fd;
}

absl::Status ConnectResult(int fd) {
  int error = 0;
  socklen_t length = sizeof error;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  if (error == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("connecting failed: ", std::strerror(error)));
}

void SetDataOptions(int fd) {
  SetInt(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  SetInt(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetInt(fd, IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveIdleSeconds);
  SetInt(fd, IPPROTO_TCP, TCP_KEEPINTVL, kKeepAliveIntervalSeconds);
  SetInt(fd, IPPROTO_TCP, TCP_KEEPCNT, kKeepAliveProbes);
  SetInt(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, kRetransmitMsMax);
}

}  // namespace farandole::transport::tcp
