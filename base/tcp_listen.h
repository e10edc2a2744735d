#ifndef FARANDOLE_BASE_TCP_LISTEN_H_
#define FARANDOLE_BASE_TCP_LISTEN_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace farandole {

// A socket that listens on HOST:PORT and does not block; HOST is a name, an address or an IPv6 address in brackets,
// port 0 is any free one. 0.0.0.0, [::] and "" are all addresses, those of IPv6 as well as of IPv4 where the machine
// has both. Of a name the first address counts that this machine has. UNAVAILABLE: it cannot be bound.
absl::StatusOr<UniqueFd> ListenTcp(const std::string& host_and_port);
// Of a bound socket.
int PortOf(int fd);

}  // namespace farandole

#endif  // FARANDOLE_BASE_TCP_LISTEN_H_
