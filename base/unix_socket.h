#ifndef FARANDOLE_BASE_UNIX_SOCKET_H_
#define FARANDOLE_BASE_UNIX_SOCKET_H_

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

// Abstract Unix stream sockets (no file, nothing to clean up) and who is at their other end. All non-blocking, CLOEXEC.
namespace farandole {

struct PeerCredentials {
  pid_t pid = 0;
  uid_t uid = 0;
};

// Listens under `name` (1 to 107 bytes, without the leading NUL). ALREADY_EXISTS if somebody else does.
absl::StatusOr<UniqueFd> ListenUnix(const std::string& name);
// Connects at once or not at all: UNAVAILABLE if nobody listens there or its backlog is full.
absl::StatusOr<UniqueFd> ConnectUnix(const std::string& name);
// Of the process that connected (or listens), as it was then; the kernel vouches for it. PERMISSION_DENIED if its uid
// is not ours or its pid lies in another pid namespace.
absl::StatusOr<PeerCredentials> CheckPeer(int socket);

}  // namespace farandole

#endif  // FARANDOLE_BASE_UNIX_SOCKET_H_
