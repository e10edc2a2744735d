#include "base/tcp_listen.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/address.h"
#include "base/resolve.h"
#include "base/socket_address.h"

namespace farandole {
namespace {

// NOT_FOUND: the machine has no such address, or nothing of its family.
absl::StatusOr<UniqueFd> ListenAt(const SocketAddress& address, bool both_families) {
  UniqueFd fd(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) {
    const int error = errno;
    const std::string text =
        absl::StrCat("cannot make a socket for ", FormatSocketAddress(address), ": ", std::strerror(error));
    return error == EAFNOSUPPORT ? absl::NotFoundError(text) : absl::UnavailableError(text);
  }
  const absl::Status listens = BindAndListen(fd.get(), address, both_families);
  if (!listens.ok()) return listens;
  return fd;
}

}  // namespace

absl::StatusOr<UniqueFd> ListenTcp(const std::string& host_and_port) {
  const absl::optional<HostAndPort> split = SplitAddress(host_and_port);
  const bool everywhere = split && (split->host.empty() || split->host == "0.0.0.0" || split->host == "::");
  std::vector<std::string> wanted = {host_and_port};
  if (everywhere) wanted = {absl::StrCat("[::]:", split->port), absl::StrCat("0.0.0.0:", split->port)};
  absl::Status last;
  for (const std::string& each : wanted) {
    const absl::StatusOr<std::vector<SocketAddress>> addresses = Resolve(each);
    if (!addresses.ok()) return absl::UnavailableError(absl::StrCat("cannot listen: ", addresses.status().message()));
    for (const SocketAddress& address : *addresses) {
      absl::StatusOr<UniqueFd> fd = ListenAt(address, everywhere);
      if (!absl::IsNotFound(fd.status())) return fd;
      last = fd.status();
    }
  }
  return absl::UnavailableError(last.message());
}

int PortOf(int fd) {
  const absl::StatusOr<SocketAddress> address = LocalAddress(fd);
  return address.ok() ? address->port() : 0;
}

}  // namespace farandole
