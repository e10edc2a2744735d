#include "worker/cuda/fake_nccl_link.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>

namespace farandole::worker::cuda {

FakeNcclInterrupt::FakeNcclInterrupt() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

FakeNcclInterrupt::~FakeNcclInterrupt() { close(fd_); }

void FakeNcclInterrupt::Raise() {
  raised_ = true;
  eventfd_write(fd_, 1);
}

FakeNcclLinks::~FakeNcclLinks() {
  for (const int socket : sockets_) {
    if (socket >= 0) close(socket);
  }
}

FakeNcclLinks::Outcome FakeNcclLinks::Exchange(std::vector<Piece> pieces, const FakeNcclInterrupt& interrupt,
                                               Deadline deadline, const std::function<void(int)>& on_death) {
  std::vector<Queues> all(sockets_.size());
  for (Piece& piece : pieces) {
    Queues& queues = all[static_cast<size_t>(piece.peer)];
    (piece.send ? queues.out : queues.in).push_back(std::move(piece));
  }
  for (;;) {
    if (interrupt.raised()) return kInterrupted;
    if (!MoveAll(&all, on_death)) return kRefused;
    if (Idle(all)) break;
    if (!Wait(all, interrupt, deadline)) return kLate;
  }
  return std::any_of(all.begin(), all.end(), [](const Queues& queues) { return queues.dead; }) ? kDead : kDone;
}

bool FakeNcclLinks::Idle(const std::vector<Queues>& all) {
  return std::all_of(all.begin(), all.end(),
                     [](const Queues& queues) { return queues.out.empty() && queues.in.empty(); });
}

bool FakeNcclLinks::MoveAll(std::vector<Queues>* all, const std::function<void(int)>& on_death) {
  for (size_t peer = 0; peer < all->size(); ++peer) {
    Queues& queues = (*all)[peer];
    const Progress out = Move(static_cast<int>(peer), &queues.out);
    // What it sent before it went may still be there.
    const Progress in = Move(static_cast<int>(peer), &queues.in);
    if (out == kRefusal || in == kRefusal) return false;
    if (out == kGone || in == kGone) queues.out.clear();
    if (in == kGone) queues.in.clear();
    if ((out == kGone || in == kGone) && !std::exchange(queues.dead, true)) on_death(static_cast<int>(peer));
  }
  return true;
}

FakeNcclLinks::Progress FakeNcclLinks::Move(int peer, std::deque<Piece>* pieces) {
  const int socket = sockets_[static_cast<size_t>(peer)];
  while (!pieces->empty()) {
    Piece& piece = pieces->front();
    while (piece.bytes > 0) {
      const ssize_t moved = piece.send ? send(socket, piece.data, piece.bytes, MSG_DONTWAIT | MSG_NOSIGNAL)
                                       : recv(socket, piece.data, piece.bytes, MSG_DONTWAIT);
      if (moved < 0 && errno == EINTR) continue;
      if (moved < 0 && errno == EAGAIN) return kWaits;
      if (moved <= 0) return kGone;
      piece.data += moved;
      piece.bytes -= static_cast<size_t>(moved);
    }
    if (piece.accept && !piece.accept()) return kRefusal;
    pieces->pop_front();
  }
  return kMoved;
}

bool FakeNcclLinks::Wait(const std::vector<Queues>& all, const FakeNcclInterrupt& interrupt, Deadline deadline) const {
  std::vector<pollfd> waits = {{interrupt.fd(), POLLIN, 0}};
  for (size_t peer = 0; peer < all.size(); ++peer) {
    const int events = (all[peer].out.empty() ? 0 : POLLOUT) | (all[peer].in.empty() ? 0 : POLLIN);
    if (events != 0) waits.push_back({sockets_[peer], static_cast<short>(events), 0});
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  if (left.count() <= 0) return false;
  poll(waits.data(), waits.size(), static_cast<int>(left.count()));
  return true;
}

void FakeNcclLinks::Tell(const void* data, size_t bytes) {
  for (const int socket : sockets_) {
    if (socket >= 0) send(socket, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
}

}  // namespace farandole::worker::cuda
