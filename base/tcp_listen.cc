#include "base/tcp_listen.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <vector>

#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

// Invalid if it cannot be bound; errno says why.
UniqueFd Listen(const addrinfo& at, bool both_families) {
  UniqueFd fd(socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return fd;
  const int one = 1;
  const int ipv6_only = both_families ? 0 : 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (at.ai_family == AF_INET6) setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &ipv6_only, sizeof ipv6_only);
  if (bind(fd.get(), at.ai_addr, at.ai_addrlen) == 0 && listen(fd.get(), SOMAXCONN) == 0) return fd;
  return UniqueFd();
}

}  // namespace

absl::StatusOr<UniqueFd> ListenTcp(const std::string& host_and_port) {
  const size_t colon = host_and_port.rfind(':');
  if (colon == std::string::npos) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", host_and_port, ": it is not HOST:PORT"));
  }
  std::string host = host_and_port.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  const bool everywhere = host.empty() || host == "0.0.0.0" || host == "::";
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  for (const std::string& each : everywhere ? std::vector<std::string>{"::", "0.0.0.0"} : std::vector{host}) {
    addrinfo* found = nullptr;
    if (getaddrinfo(each.c_str(), host_and_port.c_str() + colon + 1, &hints, &found) != 0) {
      return absl::UnavailableError(absl::StrCat("cannot listen on ", host_and_port, ": no such address"));
    }
    UniqueFd fd;
    bool absent = true;  // the machine has no such address, or nothing of its family
    for (const addrinfo* at = found; at != nullptr && !fd.valid() && absent; at = at->ai_next) {
      fd = Listen(*at, everywhere);
      absent = errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL;
    }
    freeaddrinfo(found);
    if (fd.valid()) return fd;
    if (!absent) break;
  }
  return absl::UnavailableError(absl::StrCat("cannot listen on ", host_and_port, "; is the port taken?"));
}

int PortOf(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

}  // namespace farandole
