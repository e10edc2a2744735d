#ifndef FARANDOLE_TRANSPORT_VERBS_RECEIVE_SIDE_H_
#define FARANDOLE_TRANSPORT_VERBS_RECEIVE_SIDE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "base/clock.h"
#include "transport/operation.h"
#include "transport/verbs/link.h"
#include "transport/verbs/memory.h"
#include "transport/verbs/message.h"

namespace farandole::transport::verbs {

// The receiving half of a connection. A small receive waits for a frame; a large one tells the peer where to write:
//
//   posted --kReady goes out--> offered --all parts written, its turn--> OK
//   offered --Discard, kCancel goes out--> withdrawn --kCancelled, or all parts written--> CANCELLED
//                                          withdrawn --neither within `recall_ms`--> the channel is broken
//
// A posted write cannot be called back from a device, and so memory that is offered belongs to the peer until it has
// answered. What arrives is handed out in the order sent: a frame without a receive keeps back what follows it. All on
// the loop's thread.
class ReceiveSide {
 public:
  ReceiveSide(size_t eager_bytes, int64_t recall_ms) : eager_bytes_(eager_bytes), recall_ms_(recall_ms) {}

  // `memory` of a large one. INVALID_ARGUMENT: the peer's send has another length. RESOURCE_EXHAUSTED: too many.
  absl::Status Push(Operation operation, const VerbsMemory* memory, Link* link);
  // Returns by when the peer has to answer; Infinite if it need not.
  TimePoint Discard(Tag below, TimePoint now, Link* link, std::vector<Completion>* completed);
  Tag discard_below() const { return discard_below_; }

  // What has come. INVALID_ARGUMENT: it cannot be.
  absl::Status FrameCame(const MessageHeader& header, const char* payload, uint16_t slot);
  absl::Status WriteCame(uint32_t mark, int queue_pairs, std::vector<Completion>* completed);
  absl::Status Announced(const MessageHeader& header);
  absl::Status CancelAnswered(uint16_t id, std::vector<Completion>* completed);

  // Hands out what is at its turn. INVALID_ARGUMENT: a frame differs in length from its receive.
  absl::Status Deliver(Link* link, std::vector<Completion>* completed);
  // A frame is at its turn, and has no receive.
  bool blocked() const { return arrived_.count(next_) > 0; }

  // Ends what the device does not have.
  void Fail(const absl::Status& status, std::vector<Completion>* completed);
  // Ends what it had, when it is done with that.
  void FailHeld(const absl::Status& status, std::vector<Completion>* completed);

  bool holds() const { return !offered_.empty(); }

  TimePoint EarliestDeadline() const;
  // By when the peer has to give memory back.
  TimePoint EarliestRecall() const;

 private:
  struct Offered {
    Operation operation;
    int parts = 0;                     // written
    absl::optional<TimePoint> recall;  // withdrawn
    bool written = false;
  };
  struct Arrived {
    enum class Kind { kFrame, kWrite, kVoid } kind = Kind::kVoid;
    MessageHeader header;
    const char* payload = nullptr;
    uint16_t slot = 0;
    uint16_t id = 0;
    int parts = 0;
  };

  absl::Status Mismatch(Tag tag, uint64_t sent, uint64_t expected) const;
  absl::Status CheckAnnounced(const Operation& operation) const;
  absl::Status Offer(Operation operation, const VerbsMemory* memory, Link* link);
  absl::Status Arrive(uint64_t number, const Arrived& arrived);
  enum class Step { kDelivered, kBlocked };
  absl::StatusOr<Step> DeliverFrame(const Arrived& frame, Link* link, std::vector<Completion>* completed);
  void End(std::map<uint16_t, Offered>::iterator offered, absl::Status status, std::vector<Completion>* completed);

  const size_t eager_bytes_;
  const int64_t recall_ms_;
  std::deque<Operation> small_;
  std::map<uint16_t, Offered> offered_;  // by id
  uint16_t next_id_ = 0;
  // By number, from that of the next that is handed out.
  std::map<uint64_t, Arrived> arrived_;
  uint64_t next_ = 0;
  struct Announcement {
    Tag tag;
    uint64_t bytes;
    uint64_t number;
  };
  absl::optional<Announcement> announced_;
  Tag discard_below_;
};

}  // namespace farandole::transport::verbs

#endif  // FARANDOLE_TRANSPORT_VERBS_RECEIVE_SIDE_H_
