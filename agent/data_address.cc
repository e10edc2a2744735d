#include "agent/data_address.h"

#include <netdb.h>
#include <sys/socket.h>

#include "base/unique_fd.h"

namespace farandole::agent {
namespace {

// Empty: no route.
std::string SourceFor(const addrinfo& target) {
  const UniqueFd fd(socket(target.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() || connect(fd.get(), target.ai_addr, target.ai_addrlen) != 0) return "";
  sockaddr_storage own;
  socklen_t length = sizeof own;
  char text[NI_MAXHOST];
  if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &length) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&own), length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) {
    return "";
  }
  return text;
}

}  // namespace

std::string AddressTowards(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return "";
  std::string host = address.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(), &hints, &found) != 0) return "";
  std::string source;
  for (const addrinfo* target = found; target != nullptr && source.empty(); target = target->ai_next) {
    source = SourceFor(*target);
  }
  freeaddrinfo(found);
  return source;
}

}  // namespace farandole::agent
