#ifndef FARANDOLE_BASE_SOCKET_ADDRESS_H_
#define FARANDOLE_BASE_SOCKET_ADDRESS_H_

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace farandole {

// A numeric IPv4 or IPv6 address and a port, as the kernel takes them.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  uint16_t port() const;
  // The numbers alone, without brackets.
  std::string host() const;
  // 0.0.0.0 or ::, which stand for every address.
  bool wildcard() const;
};

// Numbers only, no name is looked up, and `host` without brackets. INVALID_ARGUMENT otherwise.
absl::StatusOr<SocketAddress> MakeSocketAddress(const std::string& host, uint16_t port);
// "127.0.0.1:4711" or "[::1]:4711"; INVALID_ARGUMENT otherwise, and for port 0.
absl::StatusOr<SocketAddress> ParseSocketAddress(const std::string& text);
std::string FormatSocketAddress(const SocketAddress& address);
// Of a bound socket.
absl::StatusOr<SocketAddress> LocalAddress(int fd);

// Binds a stream socket of the address's family, and listens. `both_families`: the IPv6 wildcard is for IPv4 as well.
// NOT_FOUND: the machine has no such address. UNAVAILABLE: it cannot be bound, for instance since the port is taken.
absl::Status BindAndListen(int fd, const SocketAddress& address, bool both_families = false);

}  // namespace farandole

#endif  // FARANDOLE_BASE_SOCKET_ADDRESS_H_
