#ifndef FARANDOLE_TRANSPORT_CHANNEL_H_
#define FARANDOLE_TRANSPORT_CHANNEL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "base/clock.h"

namespace farandole::transport {

// Names one transfer on a channel. Its owner makes it unique among the transfers that are in flight; here only the
// order means something, see Channel::Discard.
struct Tag {
  uint64_t high = 0;
  uint64_t low = 0;
  bool operator==(const Tag& o) const { return high == o.high && low == o.low; }
  bool operator!=(const Tag& o) const { return !(*this == o); }
  bool operator<(const Tag& o) const { return high != o.high ? high < o.high : low < o.low; }
};

// Memory that a transport may read and write, pinned or registered where the medium wants that. The bytes stay the
// caller's and must outlive the handle; the handle must outlive every operation on it.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual char* data() const = 0;
  virtual size_t size() const = 0;
};

// A part of registered memory. Zero bytes are legal, also with a null `memory`.
struct Block {
  const Memory* memory = nullptr;
  size_t offset = 0;
  size_t bytes = 0;
};

// An ordered, reliable way to one peer.
//
// Sends arrive in the order posted. A receive matches the send with its tag; a frame whose tag has no receive yet is
// early, not an error: it and all that follow it wait in the medium (flow control) until the receive is posted. A
// receive must be as long as its send, otherwise both the receive and the channel fail with INVALID_ARGUMENT.
//
// Every method may be called from any thread and never blocks. `done` is called exactly once, on the transport's loop
// (its thread, or one that is in Transport::Drive), never inside the call that posted it and never with a lock held. A
// deadline of TimePoint::Infinite() says that the operation is content to wait as long as the channel lives.
//   OK                  sent: the memory may be reused (the peer may not have it yet); received: the bytes are there
//   DEADLINE_EXCEEDED   the deadline passed; the channel is broken from then on, since bytes may be under way
//   UNAVAILABLE         the peer closed or died
//   CANCELLED           Close() or Discard() was called here
// After the first failure other than by Discard every other pending and later operation ends with that first status.
class Channel {
 public:
  using Done = std::function<void(absl::Status)>;

  // Closes with CANCELLED and returns after the last `done` has run. On the loop's thread only if nothing was posted.
  virtual ~Channel() = default;

  virtual void Send(Tag tag, Block block, TimePoint deadline, Done done) = 0;
  virtual void Receive(Tag tag, Block block, TimePoint deadline, Done done) = 0;

  // Operations here with a smaller tag end with CANCELLED, those pending and those posted later; frames with a smaller
  // tag are dropped, whenever they come. The channel is as good as before. A call with a smaller tag than an earlier
  // one has no effect.
  virtual void Discard(Tag below) = 0;

  // Ends all operations with `reason` (CANCELLED if it is OK). Idempotent; the first reason stays. The peer sees
  // UNAVAILABLE.
  virtual void Close(absl::Status reason) = 0;
};

}  // namespace farandole::transport

#endif  // FARANDOLE_TRANSPORT_CHANNEL_H_
