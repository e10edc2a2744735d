#include "agent/data_address.h"

#include <sys/socket.h>

#include <vector>

#include "absl/status/statusor.h"
#include "base/resolve.h"
#include "base/socket_address.h"
#include "base/unique_fd.h"

namespace farandole::agent {
namespace {

// Empty: no route.
std::string SourceFor(const SocketAddress& target) {
  const UniqueFd fd(socket(target.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() || connect(fd.get(), target.get(), target.length) != 0) return "";
  const absl::StatusOr<SocketAddress> own = LocalAddress(fd.get());
  return own.ok() ? own->host() : "";
}

}  // namespace

std::string AddressTowards(const std::string& address) {
  const absl::StatusOr<std::vector<SocketAddress>> targets = Resolve(address);
  if (!targets.ok()) return "";
  for (const SocketAddress& target : *targets) {
    const std::string source = SourceFor(target);
    if (!source.empty()) return source;
  }
  return "";
}

}  // namespace farandole::agent
