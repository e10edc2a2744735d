#ifndef FARANDOLE_TRANSPORT_VERBS_LINK_H_
#define FARANDOLE_TRANSPORT_VERBS_LINK_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/channel.h"
#include "transport/verbs/credit.h"
#include "transport/verbs/endpoint.h"
#include "transport/verbs/memory.h"
#include "transport/verbs/message.h"
#include "transport/verbs/options.h"
#include "transport/verbs/queue_pair.h"

namespace farandole::transport::verbs {

// The ports that all channels of a transport use.
struct Ports {
  std::vector<PortChoice> choices;
  std::vector<int> device_of;  // for each choice, its place in `devices`
  std::vector<std::unique_ptr<Device>> devices;

  std::vector<const Device*> all() const;
};

// What is told of what comes over a Link.
class LinkEvents {
 public:
  virtual ~LinkEvents() = default;
  // `payload` is what follows the header. Of a kFrame, it stays until Link::ReturnFrame(slot).
  virtual absl::Status MessageCame(const MessageHeader& header, const char* payload, uint16_t slot) = 0;
  // A part of a large send is in the receive's memory.
  virtual absl::Status WriteCame(uint32_t mark) = 0;
  // The peer has a part of the large send with this cookie.
  virtual void WriteEnded(uint64_t cookie) = 0;
};

// The queue pairs between two ends: the first carries messages, small sends among them, through buffers that each end
// has posted before; the others carry large sends. Sends nothing that the other end has no room for (Credit). All on
// the loop's thread.
class Link {
 public:
  // `owner` is what WorkIds say. UNAVAILABLE, RESOURCE_EXHAUSTED: the device refuses.
  static absl::StatusOr<std::unique_ptr<Link>> Make(const Ports& ports, const VerbsOptions& options, uint32_t owner);

  std::vector<Endpoint> endpoints() const;
  // As many as both ends have are used.
  absl::Status Connect(const std::vector<Endpoint>& remote);

  // For large sends.
  int queue_pairs() const { return static_cast<int>(pairs_.size()) - 1; }

  bool RoomForFrame(size_t bytes) const;
  // Copies the bytes. There is room.
  absl::Status SendFrame(Tag tag, uint32_t number, const char* data, size_t bytes);
  absl::Status ReturnFrame(uint16_t slot);

  bool RoomForWrite(size_t bytes) const;
  // Of a large send. Its cookie comes back once for each of its PartsOf.
  struct WriteOrder {
    const char* data = nullptr;
    size_t bytes = 0;
    const VerbsMemory* memory = nullptr;
    Target target;
    uint16_t id = 0;
    uint32_t number = 0;
    uint64_t cookie = 0;
  };
  // There is room.
  absl::Status Write(const WriteOrder& order);

  // The peer may have so many parts more under way.
  void ReturnWrite(int parts);

  // Waits here for its turn.
  void SendControl(const MessageHeader& header, const Target* target = nullptr);
  // The same with what the peer asks for. INVALID_ARGUMENT: it asks, and takes nothing.
  absl::Status SendAnswer(const MessageHeader& header);
  // Sends controls that wait, and tells what has been taken if that is due.
  absl::Status Flush();

  // Of a queue pair of this link. UNAVAILABLE: it is broken, in the device's words.
  absl::Status Handle(const ibv_wc& completion, LinkEvents* events);

  // Messages, and parts of large sends that the peer has for certain: for the other end to know when it has got all.
  uint64_t sent() const { return sent_; }
  uint64_t received() const { return received_; }
  uint64_t writes_ended() const { return writes_ended_; }
  uint64_t writes_came() const { return writes_came_; }

  // Asks for a completion of everything that was sent as a message.
  absl::Status Settle();
  bool settled() const { return settled_ == settles_; }
  // Ends all work.
  void Break();
  // After Break: the device is done with all memory.
  bool drained() const;

 private:
  struct Control {
    MessageHeader header;
    bool has_target;
    Target target;
  };

  Link(const Ports& ports, const VerbsOptions& options);
  absl::Status MakePairs(const Ports& ports, const VerbsOptions& options, uint32_t owner);
  absl::Status MakeBuffers(const Ports& ports);
  absl::Status PostBuffers();
  absl::Status PostSlot(uint16_t slot);
  size_t inline_bytes() const;
  bool RoomToSend(size_t bytes) const;
  absl::Status SendMessage(MessageHeader header, const void* payload, size_t bytes);
  absl::Status WritePart(const WriteOrder& order, int part, int parts);
  absl::Status HandleSent(const WorkId& id, LinkEvents* events);
  absl::Status HandleMessage(uint16_t slot, uint32_t bytes, LinkEvents* events);
  bool TakeCounts(const MessageHeader& header);

  const size_t piece_bytes_;
  const size_t slot_bytes_;
  std::vector<char> buffer_;  // first the slots to receive in, then those to send from
  std::unique_ptr<VerbsMemory> memory_;
  // Go before what they may still write to.
  std::vector<std::unique_ptr<QueuePair>> pairs_;
  std::vector<uint16_t> free_slots_;
  std::deque<Control> controls_;
  Credit frame_credit_{kFrameWindow}, control_credit_{kControlWindow}, write_credit_{kWriteWindow};
  CreditDebt frame_debt_{kFrameWindow}, control_debt_{kControlWindow}, write_debt_{kWriteWindow};
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
  uint64_t writes_ended_ = 0;
  uint64_t writes_came_ = 0;
  int settles_ = 0;
  int settled_ = 0;
  bool broken_ = false;
};

}  // namespace farandole::transport::verbs

#endif  // FARANDOLE_TRANSPORT_VERBS_LINK_H_
