#ifndef FARANDOLE_BASE_RESOLVE_H_
#define FARANDOLE_BASE_RESOLVE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/socket_address.h"

namespace farandole {

// The addresses that HOST:PORT stands for, in the order in which they are to be tried, at least one; HOST is a name, an
// address or an IPv6 address in brackets, PORT a number. Asks DNS for a name, which may take its time: for executables,
// nothing in a training process looks names up. INVALID_ARGUMENT: not HOST:PORT. UNAVAILABLE: there is none.
absl::StatusOr<std::vector<SocketAddress>> Resolve(const std::string& host_and_port);

}  // namespace farandole

#endif  // FARANDOLE_BASE_RESOLVE_H_
