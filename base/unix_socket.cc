#include "base/unix_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

constexpr int kBacklog = 256;

struct Address {
  sockaddr_un value{};
  socklen_t bytes = 0;
};

absl::StatusOr<Address> Abstract(const std::string& name) {
  Address address;
  if (name.empty() || name.size() > sizeof(address.value.sun_path) - 1) {
    return absl::InvalidArgumentError(absl::StrCat("socket name '", name, "' has not 1 to 107 bytes"));
  }
  address.value.sun_family = AF_UNIX;
  // A leading NUL makes the name abstract.
  std::memcpy(address.value.sun_path + 1, name.data(), name.size());
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

absl::StatusOr<UniqueFd> NewSocket() {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return absl::ResourceExhaustedError(absl::StrCat("cannot make a socket: ", std::strerror(errno)));
  return fd;
}

}  // namespace

absl::StatusOr<UniqueFd> ListenUnix(const std::string& name) {
  absl::StatusOr<Address> address = Abstract(name);
  if (!address.ok()) return address.status();
  absl::StatusOr<UniqueFd> fd = NewSocket();
  if (!fd.ok()) return fd;
  if (bind(fd->get(), reinterpret_cast<const sockaddr*>(&address->value), address->bytes) != 0) {
    return absl::AlreadyExistsError(absl::StrCat("cannot listen on socket @", name, ": ", std::strerror(errno)));
  }
  if (listen(fd->get(), kBacklog) != 0) {
    return absl::InternalError(absl::StrCat("cannot listen on socket @", name, ": ", std::strerror(errno)));
  }
  return fd;
}

absl::StatusOr<UniqueFd> ConnectUnix(const std::string& name) {
  absl::StatusOr<Address> address = Abstract(name);
  if (!address.ok()) return address.status();
  absl::StatusOr<UniqueFd> fd = NewSocket();
  if (!fd.ok()) return fd;
  if (connect(fd->get(), reinterpret_cast<const sockaddr*>(&address->value), address->bytes) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot connect to socket @", name, ": ", std::strerror(errno)));
  }
  return fd;
}

absl::StatusOr<PeerCredentials> CheckPeer(int socket) {
  ucred credentials{};
  socklen_t bytes = sizeof credentials;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0) {
    return absl::PermissionDeniedError(absl::StrCat("the peer is unknown: ", std::strerror(errno)));
  }
  if (credentials.uid != geteuid()) {
    return absl::PermissionDeniedError(
        absl::StrCat("the peer belongs to user ", credentials.uid, ", this process to user ", geteuid()));
  }
  if (credentials.pid <= 0) return absl::PermissionDeniedError("the peer lives in another pid namespace");
  return PeerCredentials{credentials.pid, credentials.uid};
}

}  // namespace farandole
