#include "agent/launcher/packet_socket.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace farandole::agent::launcher {
namespace {

union ControlBuffer {
  char bytes[CMSG_SPACE(kPacketFdsMax * sizeof(int))];
  cmsghdr alignment;
};

void TakeFds(const msghdr& message, Packet* packet) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(const_cast<msghdr*>(&message), part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
      packet->fds.emplace_back(fd);
    }
  }
}

}  // namespace

bool SendPacket(int socket, const char* bytes, size_t count, const int* fds, int fd_count) {
  iovec piece{const_cast<char*>(bytes), count};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  ControlBuffer control{};
  if (fd_count > 0) {
    message.msg_control = control.bytes;
    message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
    std::memcpy(CMSG_DATA(part), fds, fd_count * sizeof(int));
  }
  ssize_t n;
  do {
    n = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  return n == static_cast<ssize_t>(count);
}

absl::StatusOr<Packet> ReceivePacket(int socket, int timeout_ms) {
  pollfd ready{socket, POLLIN, 0};
  int polled;
  do {
    polled = poll(&ready, 1, timeout_ms);
  } while (polled < 0 && errno == EINTR);
  if (polled == 0) return absl::DeadlineExceededError(absl::StrCat("no packet came within ", timeout_ms, " ms"));
  Packet packet;
  packet.bytes.resize(kPacketBytesMax);
  iovec piece{&packet.bytes[0], packet.bytes.size()};
  ControlBuffer control{};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  ssize_t n;
  do {
    n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  if (n <= 0) return absl::UnavailableError("the other end is gone");
  TakeFds(message, &packet);
  if ((message.msg_flags & MSG_CTRUNC) != 0) return absl::ResourceExhaustedError("no descriptor left");
  packet.bytes.resize(n);
  return packet;
}

}  // namespace farandole::agent::launcher
