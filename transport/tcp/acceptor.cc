#include "transport/tcp/acceptor.h"

#include <sys/epoll.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/tcp/socket.h"

namespace farandole::transport::tcp {

Acceptor::Acceptor(EventLoop* loop, std::string transport_name, HandOver hand_over)
    : loop_(loop),
      transport_name_(std::move(transport_name)),
      hand_over_(std::move(hand_over)),
      listener_(
          loop, [this](UniqueFd guest) { AddGuest(PrivateFd(guest.Release())); },
          [this](const std::string& why) { last_drop_ = why; }) {}

void Acceptor::StartFromLoop(PrivateFd socket) {
  socket_ = std::move(socket);
  listener_.StartFromLoop(socket_.get());
}

void Acceptor::AcceptFromLoop(const Pairing& pairing, TimePoint deadline, Transport::Ready ready) {
  waiters_.push_back({pairing, deadline, std::move(ready), 0});
  const auto waiter = std::prev(waiters_.end());
  if (deadline != TimePoint::Infinite()) {
    waiter->timer = loop_->AddTimerFromLoop(deadline, [this, waiter] {
      Transport::Ready late = std::move(waiter->ready);
      const std::string text =
          absl::StrCat("'", waiter->pairing.peer_id, "' of domain '", waiter->pairing.domain, "' did not connect",
                       last_drop_.empty() ? "" : "; last connection refused: ", last_drop_);
      waiters_.erase(waiter);
      late(absl::DeadlineExceededError(text));
    });
  }
  for (auto guest = guests_.begin(); guest != guests_.end();) {
    const auto current = guest++;
    const absl::Status challenged = Challenge(current);
    if (!challenged.ok()) Drop(current, challenged);
  }
}

void Acceptor::StopFromLoop() {
  listener_.StopFromLoop();
  socket_.Reset();
  while (!guests_.empty()) Forget(guests_.begin());
  std::list<Waiter> waiters = std::move(waiters_);
  waiters_.clear();
  for (Waiter& waiter : waiters) {
    loop_->CancelTimerFromLoop(waiter.timer);
    waiter.ready(absl::CancelledError("the transport was destroyed"));
  }
}

void Acceptor::AddGuest(PrivateFd socket) {
  if (guests_.size() >= kGuestsMax) Drop(guests_.begin(), absl::ResourceExhaustedError("too many connections at once"));
  SetDataOptions(socket.get());
  guests_.emplace_back(std::move(socket));
  const auto guest = std::prev(guests_.end());
  guest->timer = loop_->AddTimerFromLoop(loop_->Now().PlusMs(kGuestMs), [this, guest] {
    Drop(guest, absl::DeadlineExceededError(guest->handshake == nullptr ? "it said nothing" : "it is not awaited"));
  });
  loop_->AddFdFromLoop(guest->fd.get(), EPOLLIN, [this, guest](uint32_t) { ReadGuest(guest); });
}

void Acceptor::Drop(GuestIt guest, const absl::Status& why) {
  last_drop_ =
      absl::StrCat(guest->handshake == nullptr ? "a stranger" : guest->handshake->Claim(), ": ", why.message());
  Forget(guest);
}

void Acceptor::Forget(GuestIt guest) {
  loop_->CancelTimerFromLoop(guest->timer);
  loop_->RemoveFdFromLoop(guest->fd.get());
  guests_.erase(guest);
}

void Acceptor::ReadGuest(GuestIt guest) {
  // One message a turn; the descriptor is level-triggered.
  absl::StatusOr<absl::optional<std::string>> message = guest->stream.Read();
  if (!message.ok()) return Drop(guest, message.status());
  if (!message->has_value()) return;
  if (guest->challenged != nullptr) {
    const absl::Status proved = guest->handshake->Check(*guest->challenged, **message);
    if (proved.ok()) return Finish(guest);
    (void)guest->stream.Write(ResponderHandshake::VerdictMessage(false)).ok();
    return Drop(guest, proved);
  }
  const absl::Status handled = Handle(guest, **message);
  if (!handled.ok()) Drop(guest, handled);
}

absl::Status Acceptor::Handle(GuestIt guest, const std::string& message) {
  if (guest->handshake != nullptr) return absl::InvalidArgumentError("it spoke before it was asked");
  absl::StatusOr<ResponderHandshake> handshake = ResponderHandshake::Parse(transport_name_, message);
  if (!handshake.ok()) return handshake.status();
  guest->handshake = std::make_unique<ResponderHandshake>(*std::move(handshake));
  const absl::Status challenged = Challenge(guest);
  if (!challenged.ok() || guest->challenged != nullptr) return challenged;
  return guest->stream.Write(ResponderHandshake::WaitMessage());
}

absl::Status Acceptor::Challenge(GuestIt guest) {
  if (guest->handshake == nullptr || guest->challenged != nullptr) return absl::OkStatus();
  for (const Waiter& waiter : waiters_) {
    if (!guest->handshake->Matches(waiter.pairing)) continue;
    guest->challenged = std::make_unique<Pairing>(waiter.pairing);
    return guest->stream.Write(guest->handshake->Challenge(waiter.pairing));
  }
  return absl::OkStatus();
}

void Acceptor::Finish(GuestIt guest) {
  for (auto waiter = waiters_.begin(); waiter != waiters_.end(); ++waiter) {
    if (!guest->handshake->Matches(waiter->pairing) || waiter->pairing.key != guest->challenged->key) continue;
    const absl::Status told = guest->stream.Write(ResponderHandshake::VerdictMessage(true));
    if (!told.ok()) return Drop(guest, told);
    Waiter taken = std::move(*waiter);
    waiters_.erase(waiter);
    loop_->CancelTimerFromLoop(taken.timer);
    loop_->RemoveFdFromLoop(guest->fd.get());
    loop_->CancelTimerFromLoop(guest->timer);
    PrivateFd socket = std::move(guest->fd);
    guests_.erase(guest);
    hand_over_(std::move(socket), taken.pairing, taken.deadline, std::move(taken.ready));
    return;
  }
  Drop(guest, absl::FailedPreconditionError("the Accept it was meant for is over"));
}

}  // namespace farandole::transport::tcp
