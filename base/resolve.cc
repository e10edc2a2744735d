#include "base/resolve.h"

#include <netdb.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/address.h"

namespace farandole {

absl::StatusOr<std::vector<SocketAddress>> Resolve(const std::string& host_and_port) {
  const absl::optional<HostAndPort> split = SplitAddress(host_and_port);
  if (!split) return absl::InvalidArgumentError(absl::StrCat("'", host_and_port, "' is not HOST:PORT"));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(split->host.c_str(), split->port.c_str(), &hints, &found);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* at = error == 0 ? found : nullptr; at != nullptr; at = at->ai_next) {
    SocketAddress address;
    if (at->ai_addrlen > sizeof address.storage) continue;
    std::memcpy(&address.storage, at->ai_addr, at->ai_addrlen);
    address.length = at->ai_addrlen;
    addresses.push_back(address);
  }
  if (error == 0) freeaddrinfo(found);
  if (!addresses.empty()) return addresses;
  return absl::UnavailableError(
      absl::StrCat("no address is known for '", host_and_port, "': ", error == 0 ? "none fits" : gai_strerror(error)));
}

}  // namespace farandole
