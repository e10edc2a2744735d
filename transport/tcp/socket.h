#ifndef FARANDOLE_TRANSPORT_TCP_SOCKET_H_
#define FARANDOLE_TRANSPORT_TCP_SOCKET_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/private_fd.h"
#include "base/socket_address.h"

// The few socket calls that the transport makes, with errors that name the address. All sockets are non-blocking.
namespace farandole::transport::tcp {

// A socket that listens on a free port of the interface with this numeric address. UNAVAILABLE: the machine does not
// have it. INVALID_ARGUMENT: not an address, or a wildcard, under which no peer could connect.
absl::StatusOr<PrivateFd> ListenOn(const std::string& host);

// Starts a connect; the socket is writable when it has succeeded or failed. UNAVAILABLE: it failed at once.
absl::StatusOr<PrivateFd> StartConnect(const SocketAddress& address);
// How a started connect ended.
absl::Status ConnectResult(int fd);

// What every data socket gets: no delay for small frames, probes that find a vanished host while nothing is sent, and
// attempts often enough to go on soon after a cut.
void SetDataOptions(int fd);

}  // namespace farandole::transport::tcp

#endif  // FARANDOLE_TRANSPORT_TCP_SOCKET_H_
