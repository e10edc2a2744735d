#ifndef FARANDOLE_TRANSPORT_VERBS_SEND_SIDE_H_
#define FARANDOLE_TRANSPORT_VERBS_SEND_SIDE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "transport/operation.h"
#include "transport/verbs/link.h"
#include "transport/verbs/memory.h"
#include "transport/verbs/message.h"

namespace farandole::transport::verbs {

// The sending half of a connection. Sends leave in the order posted. A small one is done when its bytes are copied. A
// large one waits for the peer's receive, and is the device's until the peer has it:
//
//   pending --first in order, kReady with its tag--> written --the device is done--> OK, or CANCELLED if it was
//   discarded pending --Discard--> CANCELLED;  --the peer discards its tag--> OK, nothing is sent
//
// All on the loop's thread.
class SendSide {
 public:
  explicit SendSide(size_t eager_bytes) : eager_bytes_(eager_bytes) {}

  // `memory` of a large one.
  void Push(Operation operation, const VerbsMemory* memory);
  void Discard(Tag below, std::vector<Completion>* completed);

  // INVALID_ARGUMENT: more receives are offered than can be.
  absl::Status PeerIsReady(const MessageHeader& header, const Target& target);
  // The peer's receive is withdrawn: true if nothing will be written for it.
  bool PeerCancels(uint16_t id);
  void PeerDiscards(Tag below);

  // Sends what can be sent.
  absl::Status Pump(Link* link, std::vector<Completion>* completed);
  void WriteEnded(uint64_t cookie, std::vector<Completion>* completed);

  // Ends what the device does not have.
  void Fail(const absl::Status& status, std::vector<Completion>* completed);
  // Ends what it had, when it is done with that.
  void FailHeld(const absl::Status& status, std::vector<Completion>* completed);

  bool holds() const { return !written_.empty(); }

  TimePoint EarliestDeadline() const;

 private:
  struct Pending {
    Operation operation;
    const VerbsMemory* memory;
    bool announced = false;
  };
  struct Written {
    Operation operation;
    int parts;
    bool discarded = false;
  };
  struct Readiness {
    uint16_t id;
    uint64_t bytes;
    Target target;
  };
  enum class Step { kSent, kWaits };

  absl::StatusOr<Step> SendFirst(Link* link, std::vector<Completion>* completed);
  absl::StatusOr<Step> WriteFirst(Link* link);
  void Announce(Link* link);

  const size_t eager_bytes_;
  std::deque<Pending> pending_;
  std::map<uint64_t, Written> written_;  // by cookie
  uint64_t next_cookie_ = 1;
  uint32_t next_number_ = 0;
  std::multimap<Tag, Readiness> ready_;
  Tag discard_below_;
  Tag peer_discards_below_;
};

}  // namespace farandole::transport::verbs

#endif  // FARANDOLE_TRANSPORT_VERBS_SEND_SIDE_H_
