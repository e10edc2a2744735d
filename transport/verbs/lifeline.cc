#include "transport/verbs/lifeline.h"

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "transport/verbs/terms.h"

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
  const absl::StatusOr<uint64_t> messages = DecodeGoodbye(**message);
  if (!messages.ok()) return ended(absl::nullopt, messages.status());
  ended(*messages, absl::UnavailableError("the peer closed the connection"));
}

void Lifeline::SayGoodbyeFromLoop(uint64_t messages) {
  if (socket_.valid()) (void)stream_.Write(EncodeGoodbye(messages)).ok();
}

void Lifeline::CloseFromLoop() {
  if (!socket_.valid()) return;
  loop_->RemoveFdFromLoop(socket_.get());
  socket_.Reset();
  ended_ = nullptr;
}

}  // namespace farandole::transport::verbs
