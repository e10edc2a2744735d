#include "agent/link/data_address.h"

#include <sys/socket.h>

#include "absl/status/statusor.h"
#include "base/address.h"
#include "base/socket_address.h"
#include "base/unique_fd.h"

namespace farandole::agent::link {
namespace {

// Of networks that are for documents only (RFC 5737): packets there would take the default route.
constexpr char kFarAway[] = "192.0.2.1:9";

// Empty: no route.
std::string SourceTowards(const SocketAddress& target) {
  const UniqueFd fd(socket(target.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() || connect(fd.get(), target.get(), target.length) != 0) return "";
  const absl::StatusOr<SocketAddress> own = LocalAddress(fd.get());
  return own.ok() ? own->host() : "";
}

}  // namespace

std::string DataAddress(const std::string& peer, const std::string& controller) {
  const std::string numbers = AddressOfPeer(peer);
  const absl::StatusOr<SocketAddress> reached = ParseSocketAddress(numbers);
  if (!reached.ok()) return "";
  const std::string own = SourceTowards(*reached);
  if (!IsLoopback(numbers) || IsLoopback(controller)) return own;
  const std::string of_route = SourceTowards(*ParseSocketAddress(kFarAway));
  return of_route.empty() ? own : of_route;
}

}  // namespace farandole::agent::link
