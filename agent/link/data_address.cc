#include "agent/link/data_address.h"

#include <sys/socket.h>

#include "absl/status/statusor.h"
#include "absl/strings/str_replace.h"
#include "base/socket_address.h"
#include "base/unique_fd.h"

namespace farandole::agent::link {

std::string DataAddress(const std::string& peer) {
  const size_t scheme = peer.find(':');
  if (scheme == std::string::npos) return "";
  const std::string numbers = absl::StrReplaceAll(peer.substr(scheme + 1), {{"%5B", "["}, {"%5D", "]"}});
  const absl::StatusOr<SocketAddress> controller = ParseSocketAddress(numbers);
  if (!controller.ok()) return "";
  const UniqueFd fd(socket(controller->family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() || connect(fd.get(), controller->get(), controller->length) != 0) return "";
  const absl::StatusOr<SocketAddress> own = LocalAddress(fd.get());
  return own.ok() ? own->host() : "";
}

}  // namespace farandole::agent::link
