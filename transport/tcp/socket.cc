#include "transport/tcp/socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace farandole::transport::tcp {
namespace {

constexpr int kBacklog = 1024;
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

absl::StatusOr<SocketAddress> MakeAddress(const std::string& host, uint16_t port) {
  SocketAddress address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  if (inet_pton(AF_INET, host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    address.length = sizeof *v4;
    return address;
  }
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (inet_pton(AF_INET6, host.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    address.length = sizeof *v6;
    return address;
  }
  return absl::InvalidArgumentError(absl::StrCat("'", host, "' is not a numeric IPv4 or IPv6 address"));
}

bool IsWildcard(const SocketAddress& address) {
  if (address.family() == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_addr.s_addr == htonl(INADDR_ANY);
  }
  return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr);
}

absl::Status Failed(absl::string_view what, const SocketAddress& address, int error) {
  return absl::UnavailableError(absl::StrCat("cannot ", what, " ", FormatAddress(address), ": ", std::strerror(error)));
}

absl::StatusOr<PrivateFd> NewSocket(const SocketAddress& address) {
  PrivateFd fd(socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return Failed("make a socket for", address, errno);
  return fd;
}

void SetInt(int fd, int level, int option, int value) { setsockopt(fd, level, option, &value, sizeof value); }

}  // namespace

absl::StatusOr<SocketAddress> ParseAddress(const std::string& text) {
  const size_t colon = text.rfind(':');
  int port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(text.substr(colon + 1), &port) || port < 1 || port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not an address with a port"));
  }
  absl::string_view host = absl::string_view(text).substr(0, colon);
  if (absl::ConsumePrefix(&host, "[") && !absl::ConsumeSuffix(&host, "]")) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' lacks a closing bracket"));
  }
  return MakeAddress(std::string(host), static_cast<uint16_t>(port));
}

std::string FormatAddress(const SocketAddress& address) {
  char host[INET6_ADDRSTRLEN] = "?";
  if (address.family() == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address.storage);
    inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
    return absl::StrCat(host, ":", ntohs(v4->sin_port));
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
  inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
  return absl::StrCat("[", host, "]:", ntohs(v6->sin6_port));
}

absl::StatusOr<PrivateFd> ListenOn(const std::string& host) {
  absl::StatusOr<SocketAddress> address = MakeAddress(host, 0);
  if (!address.ok()) return address.status();
  if (IsWildcard(*address)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot listen on ", host, ": peers need the address of one interface; name it"));
  }
  absl::StatusOr<PrivateFd> fd = NewSocket(*address);
  if (!fd.ok()) return fd;
  if (bind(fd->get(), address->get(), address->length) != 0 || listen(fd->get(), kBacklog) != 0) {
    return Failed("listen on", *address, errno);
  }
  return fd;
}

absl::StatusOr<SocketAddress> LocalAddress(int fd) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (getsockname(fd, address.get(), &address.length) == 0) return address;
  return absl::UnavailableError(absl::StrCat("cannot tell the address of a socket: ", std::strerror(errno)));
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
