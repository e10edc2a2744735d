#include "transport/inproc/exchange.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/handshake.h"
#include "transport/inproc/channel.h"
#include "transport/inproc/connection.h"

namespace farandole::transport::inproc {
namespace {

// Runs the handshake between two ends that name each other, without a wire.
absl::Status Meet(const Pairing& connecting, const Pairing& accepting) {
  InitiatorHandshake initiator("inproc", connecting);
  absl::StatusOr<ResponderHandshake> responder = ResponderHandshake::Parse("inproc", initiator.Hello());
  if (!responder.ok()) return responder.status();
  absl::StatusOr<std::string> proof = initiator.Prove(responder->Challenge(accepting));
  return proof.ok() ? responder->Check(accepting, *proof) : proof.status();
}

bool NameEachOther(const Pairing& connecting, const Pairing& accepting) {
  return connecting.domain == accepting.domain && connecting.self_id == accepting.peer_id &&
         connecting.peer_id == accepting.self_id;
}

void GiveChannel(EventLoop* loop, Transport::Ready ready, std::shared_ptr<InprocConnection> connection, int end) {
  loop->Post([ready = std::move(ready), connection = std::move(connection), end] {
    ready(std::unique_ptr<Channel>(std::make_unique<InprocChannel>(connection, end)));
  });
}

}  // namespace

Exchange& Exchange::OfThisProcess() {
  static Exchange* const exchange = new Exchange;
  return *exchange;
}

void Exchange::Open(const std::string& address) {
  absl::MutexLock lock(&mutex_);
  open_.insert(address);
}

void Exchange::Shut(const std::string& address) {
  absl::MutexLock lock(&mutex_);
  open_.erase(address);
}

uint64_t Exchange::Connect(EventLoop* loop, const std::string& address, const Pairing& pairing,
                           Transport::Ready ready) {
  absl::MutexLock lock(&mutex_);
  return Add(&connects_, loop, address, pairing, std::move(ready));
}

uint64_t Exchange::Accept(EventLoop* loop, const std::string& address, const Pairing& pairing, Transport::Ready ready) {
  absl::MutexLock lock(&mutex_);
  return Add(&accepts_, loop, address, pairing, std::move(ready));
}

uint64_t Exchange::Add(Waiters* waiters, EventLoop* loop, const std::string& address, const Pairing& pairing,
                       Transport::Ready ready) {
  const uint64_t id = next_id_++;
  waiters->push_back({id, loop, address, pairing, std::move(ready)});
  MatchLocked();
  return id;
}

void Exchange::MatchLocked() {
  for (auto connect = connects_.begin(); connect != connects_.end();) {
    const auto connecting = connect++;
    for (auto accepting = accepts_.begin(); accepting != accepts_.end(); ++accepting) {
      if (connecting->address != accepting->address || !NameEachOther(connecting->pairing, accepting->pairing))
        continue;
      const absl::Status met = Meet(connecting->pairing, accepting->pairing);
      Waiter one = std::move(*connecting);
      connects_.erase(connecting);
      if (met.ok()) {
        Waiter other = std::move(*accepting);
        accepts_.erase(accepting);
        auto connection =
            std::make_shared<InprocConnection>(one.loop, other.loop, one.pairing.peer_id, other.pairing.peer_id);
        GiveChannel(one.loop, std::move(one.ready), connection, 0);
        GiveChannel(other.loop, std::move(other.ready), connection, 1);
      } else {
        End(std::move(one), met);
      }
      break;
    }
  }
}

void Exchange::Expire(uint64_t id) {
  absl::MutexLock lock(&mutex_);
  for (auto it = connects_.begin(); it != connects_.end(); ++it) {
    if (it->id != id) continue;
    Waiter late = std::move(*it);
    connects_.erase(it);
    const bool listens = open_.contains(late.address);
    const std::string text = absl::StrCat("cannot open a channel to ", late.address, " for '", late.pairing.peer_id,
                                          "': ", listens ? "it is not awaited there" : "nobody listens");
    return End(std::move(late), listens ? absl::FailedPreconditionError(text) : absl::UnavailableError(text));
  }
  for (auto it = accepts_.begin(); it != accepts_.end(); ++it) {
    if (it->id != id) continue;
    Waiter late = std::move(*it);
    accepts_.erase(it);
    const std::string text =
        absl::StrCat("'", late.pairing.peer_id, "' of domain '", late.pairing.domain, "' did not connect");
    return End(std::move(late), absl::DeadlineExceededError(text));
  }
}

void Exchange::Cancel(EventLoop* loop) {
  absl::MutexLock lock(&mutex_);
  for (Waiters* waiters : {&connects_, &accepts_}) {
    for (auto it = waiters->begin(); it != waiters->end();) {
      const auto current = it++;
      if (current->loop != loop) continue;
      Waiter cancelled = std::move(*current);
      waiters->erase(current);
      End(std::move(cancelled), absl::CancelledError("the transport was destroyed"));
    }
  }
}

void Exchange::End(Waiter waiter, absl::Status status) {
  waiter.loop->Post([ready = std::move(waiter.ready), status = std::move(status)] { ready(status); });
}

}  // namespace farandole::transport::inproc
