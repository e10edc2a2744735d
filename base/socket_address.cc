#include "base/socket_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/address.h"

namespace farandole {
namespace {

const sockaddr_in& V4(const SocketAddress& address) { return reinterpret_cast<const sockaddr_in&>(address.storage); }
const sockaddr_in6& V6(const SocketAddress& address) { return reinterpret_cast<const sockaddr_in6&>(address.storage); }

void SetInt(int fd, int level, int option, int value) { setsockopt(fd, level, option, &value, sizeof value); }

}  // namespace

uint16_t SocketAddress::port() const { return ntohs(family() == AF_INET ? V4(*this).sin_port : V6(*this).sin6_port); }

std::string SocketAddress::host() const {
  char text[INET6_ADDRSTRLEN] = "?";
  if (family() == AF_INET) {
    inet_ntop(AF_INET, &V4(*this).sin_addr, text, sizeof text);
  } else {
    inet_ntop(AF_INET6, &V6(*this).sin6_addr, text, sizeof text);
  }
  return text;
}

bool SocketAddress::wildcard() const {
  if (family() == AF_INET) return V4(*this).sin_addr.s_addr == htonl(INADDR_ANY);
  return IN6_IS_ADDR_UNSPECIFIED(&V6(*this).sin6_addr);
}

absl::StatusOr<SocketAddress> MakeSocketAddress(const std::string& host, uint16_t port) {
  SocketAddress address;
  auto* const v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  if (inet_pton(AF_INET, host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    address.length = sizeof *v4;
    return address;
  }
  auto* const v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (inet_pton(AF_INET6, host.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    address.length = sizeof *v6;
    return address;
  }
  return absl::InvalidArgumentError(absl::StrCat("'", host, "' is not a numeric IPv4 or IPv6 address"));
}

absl::StatusOr<SocketAddress> ParseSocketAddress(const std::string& text) {
  const absl::optional<HostAndPort> split = SplitAddress(text);
  int port = 0;
  if (!split || !absl::SimpleAtoi(split->port, &port) || port < 1 || port > UINT16_MAX) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not an address with a port"));
  }
  return MakeSocketAddress(split->host, static_cast<uint16_t>(port));
}

std::string FormatSocketAddress(const SocketAddress& address) {
  const std::string host = address.host();
  return address.family() == AF_INET ? absl::StrCat(host, ":", address.port())
                                     : absl::StrCat("[", host, "]:", address.port());
}

absl::StatusOr<SocketAddress> LocalAddress(int fd) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (getsockname(fd, address.get(), &address.length) == 0) return address;
  return absl::UnavailableError(absl::StrCat("cannot tell the address of a socket: ", std::strerror(errno)));
}

absl::Status BindAndListen(int fd, const SocketAddress& address, bool both_families) {
  // What a process before this one left on a port that was named.
  if (address.port() != 0) SetInt(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.family() == AF_INET6) SetInt(fd, IPPROTO_IPV6, IPV6_V6ONLY, both_families ? 0 : 1);
  bool bound = bind(fd, address.get(), address.length) == 0;
  // Earlier, two sockets that take any free port at a time could be given the same. But who names this port after this
  // process needs it: the connections that it leaves have it from here.
  if (bound && address.port() == 0) SetInt(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  bound = bound && listen(fd, SOMAXCONN) == 0;
  if (bound) return absl::OkStatus();
  const int error = errno;
  const std::string text = absl::StrCat("cannot listen on ", FormatSocketAddress(address), ": ", std::strerror(error));
  return error == EADDRNOTAVAIL || error == EAFNOSUPPORT ? absl::NotFoundError(text) : absl::UnavailableError(text);
}

}  // namespace farandole
