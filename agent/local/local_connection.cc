#include "agent/local/local_connection.h"

#include <sys/epoll.h>

#include <utility>
#include <vector>

#include "proto/codec/codec.h"

namespace farandole::agent::local {
namespace {

// What a dead peer can have left in the socket's buffer, in reads of FrameSocket.
constexpr int kLastReadsMax = 64;

}  // namespace

LocalConnection::LocalConnection(EventLoop* loop, UniqueFd socket, PeerCredentials peer, const Callbacks* callbacks)
    : loop_(loop), socket_(std::move(socket)), peer_(peer), callbacks_(callbacks) {
  socket_.set_received_frame_bytes_max(kUnattachedFrameBytesMax);
}

LocalConnection::~LocalConnection() {
  if (open_ && events_ != 0) loop_->RemoveFdFromLoop(socket_.fd());
}

void LocalConnection::StartFromLoop() {
  events_ = EPOLLIN;
  loop_->AddFdFromLoop(socket_.fd(), events_, [weak = weak_from_this()](uint32_t events) {
    if (std::shared_ptr<LocalConnection> self = weak.lock()) self->Handle(events);
  });
}

void LocalConnection::AttachFromLoop(Incarnation incarnation) {
  incarnation_ = incarnation;
  socket_.set_received_frame_bytes_max(kFrameBytesMax);
}

void LocalConnection::SendFromLoop(const LocalDown& message, UniqueFd fd) {
  SendBytesFromLoop(Encode(message), std::move(fd));
}

void LocalConnection::SendBytesFromLoop(absl::string_view bytes, UniqueFd fd) {
  if (!open_) return;
  const absl::Status status = socket_.Send(bytes, std::move(fd));
  // A broken connection is noticed by reading, which also sees what the peer said before.
  if (absl::IsResourceExhausted(status)) return Close(status);
  UpdateEvents();
}

void LocalConnection::DrainFromLoop() {
  for (int i = 0; i < kLastReadsMax && open_ && ReadOnce(); ++i) {
  }
}

void LocalConnection::Handle(uint32_t events) {
  if ((events & EPOLLOUT) != 0 && open_) {
    (void)socket_.Flush().ok();
    UpdateEvents();
  }
  if ((events & ~static_cast<uint32_t>(EPOLLOUT)) != 0 && open_) ReadOnce();
}

bool LocalConnection::ReadOnce() {
  const std::shared_ptr<LocalConnection> self = shared_from_this();
  std::vector<Frame> frames;
  const absl::Status status = socket_.Receive(&frames);
  for (const Frame& frame : frames) {
    if (!open_) return false;
    const absl::StatusOr<LocalUp> message = DecodeLocalUp(frame.bytes);
    if (!message.ok()) {
      Close(message.status());
      return false;
    }
    callbacks_->on_message(self, *message);
  }
  if (!status.ok()) Close(status);
  return status.ok() && !frames.empty();
}

void LocalConnection::Close(const absl::Status& status) {
  if (!open_) return;
  const std::shared_ptr<LocalConnection> self = shared_from_this();
  open_ = false;
  loop_->RemoveFdFromLoop(socket_.fd());
  socket_ = FrameSocket(UniqueFd());
  callbacks_->on_closed(self, status);
}

void LocalConnection::UpdateEvents() {
  const uint32_t events = socket_.unsent() ? EPOLLIN | EPOLLOUT : EPOLLIN;
  if (!open_ || events_ == 0 || events == events_) return;
  events_ = events;
  loop_->ModifyFdFromLoop(socket_.fd(), events);
}

}  // namespace farandole::agent::local
