#include "base/listener.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole {

namespace {

// A connection that died in the queue, and has left it (accept(2), "Error handling"); the next one may be well.
bool ConcernsOneConnection(int error) {
  switch (error) {
    case ECONNABORTED:
    case EINTR:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENETDOWN:
    case ENETUNREACH:
    case ENONET:
    case ENOPROTOOPT:
    case EOPNOTSUPP:
    case EPROTO:
    case ETIMEDOUT:
      return true;
    default:
      return false;
  }
}

}  // namespace

absl::StatusOr<UniqueFd> AcceptNext(int listening_fd) {
  for (;;) {
    UniqueFd fd(accept4(listening_fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd.valid() || errno == EAGAIN || errno == EWOULDBLOCK) return fd;
    if (errno == EBADF || errno == EINVAL || errno == ENOTSOCK) return fd;
    if (!ConcernsOneConnection(errno)) {
      return absl::ResourceExhaustedError(absl::StrCat("cannot accept a connection: ", std::strerror(errno)));
    }
  }
}

Listener::Listener(EventLoop* loop, OnConnection on_connection, OnExhausted on_exhausted)
    : loop_(loop), on_connection_(std::move(on_connection)), on_exhausted_(std::move(on_exhausted)) {}

Listener::~Listener() { StopFromLoop(); }

void Listener::StartFromLoop(int fd) {
  fd_ = fd;
  Watch();
}

void Listener::StopFromLoop() {
  if (fd_ < 0) return;
  loop_->CancelTimerFromLoop(pause_);
  if (pause_ == 0) loop_->RemoveFdFromLoop(fd_);
  fd_ = -1;
}

void Listener::Watch() {
  pause_ = 0;
  loop_->AddFdFromLoop(fd_, EPOLLIN, [this](uint32_t) { TakeSome(); });
}

void Listener::TakeSome() {
  for (int i = 0; i < kConnectionsPerTurn && fd_ >= 0; ++i) {
    absl::StatusOr<UniqueFd> next = AcceptNext(fd_);
    if (!next.ok()) {
      loop_->RemoveFdFromLoop(fd_);
      pause_ = loop_->AddTimerFromLoop(loop_->Now().PlusMs(kPauseMs), [this] { Watch(); });
      if (on_exhausted_ != nullptr) on_exhausted_(std::string(next.status().message()));
      return;
    }
    if (!next->valid()) return;
    on_connection_(*std::move(next));
  }
}

}  // namespace farandole
