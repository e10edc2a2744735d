#ifndef FARANDOLE_BASE_FRONT_DOOR_H_
#define FARANDOLE_BASE_FRONT_DOOR_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/door_proof.h"
#include "base/event_loop.h"
#include "base/listener.h"
#include "base/unique_fd.h"

namespace farandole {

// Stands before a gRPC server and keeps off who has no token: gRPC parses whatever anybody sends, at a cost that is
// not bounded, and stops to accept for good when descriptors run out. A guest says one HTTP request, CONNECT with the
// proof of a token (base/door_proof.h), is answered 200 and handed over; from then on the connection is gRPC's, with
// TLS or without. Who says anything else is refused. As long as a proof is remembered it opens from the address only
// from which it came first. Who overhears it, as it travels before TLS, learns no token; but gRPC can be reached with
// it behind the same address, and after a restart or kProofsMax newer proofs.
//
//   guest: NEW --CONNECT, good proof--> handed over
//          NEW --CONNECT, proof known from another address--> 403, dropped
//          NEW --CONNECT, proof of a token after its end--> 410, dropped
//          any --anything else, too much, closed, kGuestMs passed, pushed out by newer guests--> dropped
//
// Everything on the loop.
class FrontDoor {
 public:
  // Guests at a time; when there are more, the oldest is dropped. An honest one comes again, at the cost of another
  // connection for both: of ten thousand agents that connect at once, thousands are guests at a time. A quarter of the
  // process's descriptors if that is less: the others are for who has a token.
  static constexpr size_t kGuestsMax = 8192;
  static constexpr uint64_t kDescriptorsPerGuest = 4;
  // How long a guest may take.
  static constexpr int64_t kGuestMs = 3000;
  // Of its request.
  static constexpr size_t kHeadBytesMax = 2048;
  // Proofs that are remembered with their addresses; then the oldest is forgotten.
  static constexpr size_t kProofsMax = 1 << 16;

  // What to think of these credentials (base/door_proof.h).
  using Check = std::function<TokenState(absl::string_view credentials)>;
  using HandOver = std::function<void(UniqueFd connection)>;
  // What became of a guest.
  struct Decision {
    std::string job;      // that it named; proven unless it was refused. "": none
    std::string address;  // without the port
    const char* refusal;  // why it may not enter; null: it may
  };
  using OnDecided = std::function<void(const Decision& decision)>;

  // Opens: listens on HOST:PORT. UNAVAILABLE: cannot be bound. `hand_over` gets a connection that does not block, with
  // nothing read beyond the request. `on_exhausted` is told whenever descriptors have run out, `on_decided` of each
  // guest that has asked; both may be null.
  static absl::StatusOr<std::unique_ptr<FrontDoor>> OpenFromLoop(const std::string& host_and_port, EventLoop* loop,
                                                                 Check check, HandOver hand_over,
                                                                 Listener::OnExhausted on_exhausted,
                                                                 OnDecided on_decided = nullptr);
  // From the loop, or after it has stopped.
  ~FrontDoor();

  int port() const { return port_; }

 private:
  struct Guest {
    UniqueFd fd;
    std::string head;
    EventLoop::TimerId timer = 0;
  };
  using GuestIt = std::list<Guest>::iterator;

  FrontDoor(UniqueFd socket, int port, EventLoop* loop, Check check, HandOver hand_over,
            Listener::OnExhausted on_exhausted, OnDecided on_decided);
  void Welcome(UniqueFd connection);
  void Read(GuestIt guest);
  void Decide(GuestIt guest);
  // Notes from where this proof came first.
  bool IsAtHome(const std::string& proof, const std::string& address);
  void Refuse(GuestIt guest, const std::string& answer);
  void Tell(const std::string& credentials, std::string address, const char* refusal) const;
  UniqueFd Take(GuestIt guest);

  EventLoop* const loop_;
  const Check check_;
  const HandOver hand_over_;
  const OnDecided on_decided_;
  const UniqueFd socket_;
  const int port_;
  const size_t guests_max_;
  Listener listener_;
  std::list<Guest> guests_;                              // oldest first
  absl::flat_hash_map<std::string, std::string> homes_;  // proof -> address
  std::deque<std::string> proofs_;                       // of `homes_`, oldest first
};

}  // namespace farandole

#endif  // FARANDOLE_BASE_FRONT_DOOR_H_
