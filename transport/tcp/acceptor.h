#ifndef FARANDOLE_TRANSPORT_TCP_ACCEPTOR_H_
#define FARANDOLE_TRANSPORT_TCP_ACCEPTOR_H_

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "base/event_loop.h"
#include "base/listener.h"
#include "base/private_fd.h"
#include "transport/handshake.h"
#include "transport/tcp/message_stream.h"
#include "transport/transport.h"

namespace farandole::transport::tcp {

// The listening socket, the Accepts that wait, and the guests: connections that have not proved yet who they are. All
// on the loop's thread.
//
//   guest: NEW --Hello--> GREETED --an Accept matches--> CHALLENGED --good Proof--> handed over
//          any --other message, closed, kGuestMs passed, pushed out by newer guests--> dropped
//
// A guest that has not proved itself never occupies an Accept: any number may be challenged for the same one, the
// first that knows the key gets it.
class Acceptor {
 public:
  // Receives a socket whose peer is authenticated.
  using HandOver =
      std::function<void(PrivateFd socket, const Pairing& pairing, TimePoint deadline, Transport::Ready ready)>;

  // Guests at a time; when there are more, the oldest is dropped (an honest one comes again).
  static constexpr int kGuestsMax = 128;
  // How long a guest may take.
  static constexpr int64_t kGuestMs = 2000;

  // `transport_name` is what the MACs cover.
  Acceptor(EventLoop* loop, std::string transport_name, HandOver hand_over);

  // `socket` listens.
  void StartFromLoop(PrivateFd socket);
  void AcceptFromLoop(const Pairing& pairing, TimePoint deadline, Transport::Ready ready);
  // Ends all Accepts and drops all guests. Nothing happens afterwards.
  void StopFromLoop();

 private:
  struct Waiter {
    Pairing pairing;
    TimePoint deadline;
    Transport::Ready ready;
    EventLoop::TimerId timer = 0;
  };
  struct Guest {
    explicit Guest(PrivateFd s) : fd(std::move(s)), stream(fd.get()) {}
    PrivateFd fd;
    MessageStream stream;
    std::unique_ptr<ResponderHandshake> handshake;
    // What it was challenged for.
    std::unique_ptr<Pairing> challenged;
    EventLoop::TimerId timer = 0;
  };
  using GuestIt = std::list<Guest>::iterator;

  void AddGuest(PrivateFd socket);
  void Drop(GuestIt guest, const absl::Status& why);
  void Forget(GuestIt guest);
  void ReadGuest(GuestIt guest);
  // Why the guest has to go, if so.
  absl::Status Handle(GuestIt guest, const std::string& message);
  // Challenges a guest that has greeted, if an Accept matches.
  absl::Status Challenge(GuestIt guest);
  void Finish(GuestIt guest);

  EventLoop* const loop_;
  const std::string transport_name_;
  const HandOver hand_over_;
  PrivateFd socket_;
  Listener listener_;
  std::list<Waiter> waiters_;
  std::list<Guest> guests_;  // oldest first
  // For the error text of an Accept that waits in vain.
  std::string last_drop_;
};

}  // namespace farandole::transport::tcp

#endif  // FARANDOLE_TRANSPORT_TCP_ACCEPTOR_H_
