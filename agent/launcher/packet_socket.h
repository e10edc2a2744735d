#ifndef FARANDOLE_AGENT_LAUNCHER_PACKET_SOCKET_H_
#define FARANDOLE_AGENT_LAUNCHER_PACKET_SOCKET_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace farandole::agent::launcher {

inline constexpr size_t kPacketBytesMax = 8192;
inline constexpr int kPacketFdsMax = 2;

// Sends one packet with its descriptors over a SOCK_SEQPACKET socket: whole or not at all. Safe between fork and exec.
// False with errno otherwise; EAGAIN: no room now. No SIGPIPE.
bool SendPacket(int socket, const char* bytes, size_t count, const int* fds, int fd_count);

struct Packet {
  std::string bytes;
  std::vector<UniqueFd> fds;  // CLOEXEC
};

// Waits for the next packet, up to `timeout_ms`.
//   DEADLINE_EXCEEDED   none came
//   UNAVAILABLE         the other end is gone
//   RESOURCE_EXHAUSTED  this process has no descriptor left for those that came with it
absl::StatusOr<Packet> ReceivePacket(int socket, int timeout_ms);

}  // namespace farandole::agent::launcher

#endif  // FARANDOLE_AGENT_LAUNCHER_PACKET_SOCKET_H_
