#include "transport/verbs/lifeline.h"

#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace farandole::transport::verbs {

Lifeline::Lifeline(EventLoop* loop, PrivateFd socket)
    : loop_(loop), socket_(std::move(socket)), stream_(socket_.get()) {}

void Lifeline::WatchFromLoop(Ended ended) {
  ended_ = std::move(ended);
  loop_->AddFdFromLoop(socket_.get(), EPOLLIN | EPOLLRDHUP, [this](uint32_t) { ReadFromLoop(); });
}

void Lifeline::ReadFromLoop() {
  const absl::StatusOr<absl::optional<std::string>> message = stream_.Read();
  if (message.ok() && !message->has_value()) return;
  loop_->RemoveFdFromLoop(socket_.get());
  Ended ended = std::move(ended_);
  ended_ = nullptr;
  if (!message.ok()) return ended(absl::nullopt, absl::UnavailableError("the peer closed the connection or died"));
  const absl::StatusOr<Goodbye> goodbye = DecodeGoodbye(**message);
  if (!goodbye.ok()) return ended(absl::nullopt, goodbye.status());
  ended(*goodbye, absl::UnavailableError("the peer closed the connection"));
}

void Lifeline::SayGoodbyeFromLoop(const Goodbye& goodbye) {
  if (socket_.valid()) (void)stream_.Write(EncodeGoodbye(goodbye.messages, goodbye.writes)).ok();
}

void Lifeline::CloseFromLoop() {
  if (!socket_.valid()) return;
  loop_->RemoveFdFromLoop(socket_.get());
  socket_.Reset();
  ended_ = nullptr;
}

}  // namespace farandole::transport::verbs
