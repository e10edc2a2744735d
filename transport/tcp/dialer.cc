#include "transport/tcp/dialer.h"

#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole::transport::tcp {
namespace {

// Pauses between attempts double from the first to the second.
constexpr int64_t kPauseMsMin = 10;
constexpr int64_t kPauseMsMax = 500;

}  // namespace

Dialer::Dialer(EventLoop* loop, std::string transport_name, HandOver hand_over)
    : loop_(loop), transport_name_(std::move(transport_name)), hand_over_(std::move(hand_over)) {}

void Dialer::ConnectFromLoop(const std::string& address, const Pairing& pairing, TimePoint deadline,
                             Transport::Ready ready) {
  absl::StatusOr<SocketAddress> parsed = ParseSocketAddress(address);
  if (!parsed.ok()) return ready(parsed.status());
  dials_.emplace_back();
  const auto dial = std::prev(dials_.end());
  dial->text = address;
  dial->address = *parsed;
  dial->pairing = pairing;
  dial->deadline = deadline;
  dial->ready = std::move(ready);
  dial->last = absl::DeadlineExceededError("no answer");
  if (deadline != TimePoint::Infinite()) {
    dial->deadline_timer = loop_->AddTimerFromLoop(deadline, [this, dial] { End(dial, dial->last); });
  }
  Start(dial);
}

void Dialer::StopFromLoop() {
  while (!dials_.empty()) End(dials_.begin(), absl::CancelledError("the transport was destroyed"));
}

void Dialer::Start(DialIt dial) {
  dial->pause_timer = 0;
  absl::StatusOr<PrivateFd> socket = StartConnect(dial->address);
  if (!socket.ok()) return Failed(dial, socket.status());
  dial->socket = *std::move(socket);
  dial->state = State::kConnecting;
  loop_->AddFdFromLoop(dial->socket.get(), EPOLLOUT, [this, dial](uint32_t events) { HandleEvents(dial, events); });
}

void Dialer::HandleEvents(DialIt dial, uint32_t events) {
  if (dial->state == State::kConnecting) {
    const absl::Status greeted = Greet(dial);
    if (!greeted.ok()) Failed(dial, greeted);
    return;
  }
  bool accepted = false;
  const absl::Status status = ReadMessage(dial, &accepted);
  if (!status.ok()) return Failed(dial, status);
  if (accepted) Finish(dial);
}

absl::Status Dialer::Greet(DialIt dial) {
  const int fd = dial->socket.get();
  absl::Status connected = ConnectResult(fd);
  if (!connected.ok()) return connected;
  absl::StatusOr<SocketAddress> local = LocalAddress(fd);
  if (!local.ok()) return local.status();
  // Where nobody listens, the kernel may connect a socket to itself.
  if (FormatSocketAddress(*local) == FormatSocketAddress(dial->address))
    return absl::UnavailableError("nobody listens");
  SetDataOptions(fd);
  dial->stream = std::make_unique<MessageStream>(fd);
  dial->handshake = std::make_unique<InitiatorHandshake>(transport_name_, dial->pairing);
  dial->state = State::kGreeted;
  loop_->ModifyFdFromLoop(fd, EPOLLIN);
  return dial->stream->Write(dial->handshake->Hello());
}

absl::Status Dialer::ReadMessage(DialIt dial, bool* accepted) {
  absl::StatusOr<absl::optional<std::string>> message = dial->stream->Read();
  if (!message.ok()) return message.status();
  if (!message->has_value()) return absl::OkStatus();
  if (dial->state == State::kProved) {
    absl::Status verdict = dial->handshake->Finish(**message);
    *accepted = verdict.ok();
    return verdict;
  }
  absl::StatusOr<InitiatorHandshake::Answer> answer = dial->handshake->Classify(**message);
  if (!answer.ok()) return answer.status();
  if (*answer == InitiatorHandshake::Answer::kWait) {
    dial->last = absl::FailedPreconditionError(absl::StrCat("the process there does not await '", dial->pairing.self_id,
                                                            "' as a peer of '", dial->pairing.peer_id, "' in domain '",
                                                            dial->pairing.domain, "'; is it of another generation?"));
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> proof = dial->handshake->Prove(**message);
  if (!proof.ok()) return proof.status();
  dial->state = State::kProved;
  return dial->stream->Write(*proof);
}

void Dialer::Failed(DialIt dial, const absl::Status& status) {
  if (status.code() == absl::StatusCode::kInvalidArgument) {
    return End(dial, absl::FailedPreconditionError(status.message()));
  }
  if (status.code() != absl::StatusCode::kUnavailable) return End(dial, status);
  // That a guest who is not awaited gets closed is not news.
  if (dial->state != State::kGreeted || dial->last.code() != absl::StatusCode::kFailedPrecondition) {
    dial->last = status;
  }
  CloseSocket(dial);
  dial->state = State::kPaused;
  dial->pause_ms = std::min(std::max(2 * dial->pause_ms, kPauseMsMin), kPauseMsMax);
  dial->pause_timer = loop_->AddTimerFromLoop(loop_->Now().PlusMs(dial->pause_ms), [this, dial] { Start(dial); });
}

void Dialer::CloseSocket(DialIt dial) {
  if (!dial->socket.valid()) return;
  loop_->RemoveFdFromLoop(dial->socket.get());
  dial->socket.Reset();
}

Dialer::Dial Dialer::Take(DialIt dial) {
  loop_->CancelTimerFromLoop(dial->deadline_timer);
  loop_->CancelTimerFromLoop(dial->pause_timer);
  if (dial->socket.valid()) loop_->RemoveFdFromLoop(dial->socket.get());
  Dial taken = std::move(*dial);
  dials_.erase(dial);
  return taken;
}

void Dialer::End(DialIt dial, absl::Status status) {
  Dial taken = Take(dial);
  taken.socket.Reset();
  taken.ready(absl::Status(status.code(), absl::StrCat("cannot open a channel to ", taken.text, " for '",
                                                       taken.pairing.peer_id, "': ", status.message())));
}

void Dialer::Finish(DialIt dial) {
  Dial taken = Take(dial);
  hand_over_(std::move(taken.socket), taken.pairing, taken.deadline, std::move(taken.ready));
}

}  // namespace farandole::transport::tcp
