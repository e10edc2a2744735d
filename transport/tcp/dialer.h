#ifndef FARANDOLE_TRANSPORT_TCP_DIALER_H_
#define FARANDOLE_TRANSPORT_TCP_DIALER_H_

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "base/event_loop.h"
#include "base/private_fd.h"
#include "base/socket_address.h"
#include "transport/handshake.h"
#include "transport/tcp/message_stream.h"
#include "transport/tcp/socket.h"
#include "transport/transport.h"

namespace farandole::transport::tcp {

// The Connects that are under way. All on the loop's thread.
//
//   CONNECTING --connected, Hello--> GREETED --good Challenge, Proof--> PROVED --accepted--> handed over
//   CONNECTING, GREETED, PROVED --refused, closed--> PAUSED --kPauseMs--> CONNECTING
//   any --bad MAC, denied, deadline--> failed
class Dialer {
 public:
  // Receives a socket whose peer is authenticated.
  using HandOver =
      std::function<void(PrivateFd socket, const Pairing& pairing, TimePoint deadline, Transport::Ready ready)>;

  // `transport_name` is what the MACs cover.
  Dialer(EventLoop* loop, std::string transport_name, HandOver hand_over);

  void ConnectFromLoop(const std::string& address, const Pairing& pairing, TimePoint deadline, Transport::Ready ready);
  // Ends all Connects. Nothing happens afterwards.
  void StopFromLoop();

 private:
  enum class State { kPaused, kConnecting, kGreeted, kProved };
  struct Dial {
    std::string text;
    SocketAddress address;
    Pairing pairing;
    TimePoint deadline;
    Transport::Ready ready;
    State state = State::kPaused;
    PrivateFd socket;
    std::unique_ptr<MessageStream> stream;
    std::unique_ptr<InitiatorHandshake> handshake;
    int64_t pause_ms = 0;
    EventLoop::TimerId deadline_timer = 0;
    EventLoop::TimerId pause_timer = 0;
    // What the deadline will report.
    absl::Status last;
  };
  using DialIt = std::list<Dial>::iterator;

  void Start(DialIt dial);
  void HandleEvents(DialIt dial, uint32_t events);
  absl::Status Greet(DialIt dial);
  absl::Status ReadMessage(DialIt dial, bool* accepted);
  // Decides between another attempt and the end.
  void Failed(DialIt dial, const absl::Status& status);
  void CloseSocket(DialIt dial);
  void End(DialIt dial, absl::Status status);
  void Finish(DialIt dial);
  // Takes the dial off the books.
  Dial Take(DialIt dial);

  EventLoop* const loop_;
  const std::string transport_name_;
  const HandOver hand_over_;
  std::list<Dial> dials_;
};

}  // namespace farandole::transport::tcp

#endif  // FARANDOLE_TRANSPORT_TCP_DIALER_H_
