#include "base/tcp_listen.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "absl/strings/str_cat.h"

namespace farandole {

absl::StatusOr<UniqueFd> ListenTcp(const std::string& host_and_port) {
  const size_t colon = host_and_port.rfind(':');
  if (colon == std::string::npos) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", host_and_port, ": it is not HOST:PORT"));
  }
  std::string host = host_and_port.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), host_and_port.c_str() + colon + 1, &hints, &found) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", host_and_port, ": no such address"));
  }
  UniqueFd fd(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int one = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  const bool bound = bind(fd.get(), found->ai_addr, found->ai_addrlen) == 0 && listen(fd.get(), SOMAXCONN) == 0;
  freeaddrinfo(found);
  if (!bound) return absl::UnavailableError(absl::StrCat("cannot listen on ", host_and_port, "; is the port taken?"));
  return fd;
}

int PortOf(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

}  // namespace farandole
