#include "tests/bench/socket_ring.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace farandole::bench {
namespace {

void Require(bool ok, const char* what) {
  if (ok) return;
  std::perror(what);
  std::exit(1);
}

void Prepare(int fd) {
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

// Both ends of a connection over loopback.
void Connect(int* first, int* second) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  Require(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 && listen(listener, 1) == 0 &&
              getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) == 0,
          "a listener on loopback");
  *first = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  Require(connect(*first, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "a connection over loopback");
  *second = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  Require(*second >= 0, "its other end");
  close(listener);
  Prepare(*first);
  Prepare(*second);
}

}  // namespace

SocketRing::SocketRing(int size) : ends_(size) {
  if (size == 2) {
    Connect(&ends_[0].out, &ends_[1].out);
    for (Ends& ends : ends_) ends.in = ends.out;
    return;
  }
  for (int rank = 0; rank < size; ++rank) Connect(&ends_[rank].out, &ends_[(rank + 1) % size].in);
}

bool SocketRing::Move(int rank, const char* from, char* to, int64_t bytes, int64_t piece_bytes) const {
  const Ends& ends = ends_[rank];
  int64_t sent = 0, received = 0;
  const auto advance = [](ssize_t n, int64_t* done) {
    if (n > 0) *done += n;
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
  };
  while (sent < bytes || received < bytes) {
    const int64_t before = sent + received;
    if (sent < bytes && !advance(send(ends.out, from + sent, std::min(piece_bytes, bytes - sent), MSG_NOSIGNAL), &sent))
      return false;
    if (received < bytes &&
        !advance(recv(ends.in, to + received, std::min(piece_bytes, bytes - received), 0), &received))
      return false;
    if (sent + received > before) continue;
    pollfd wanted[2] = {{ends.out, static_cast<short>(sent < bytes ? POLLOUT : 0), 0},
                        {ends.in, static_cast<short>(received < bytes ? POLLIN : 0), 0}};
    if (ends.out == ends.in) wanted[0].events |= wanted[1].events;
    if (poll(wanted, ends.out == ends.in ? 1 : 2, 10000) <= 0) return false;
  }
  return true;
}

}  // namespace farandole::bench
