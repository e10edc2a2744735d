#ifndef FARANDOLE_TRANSPORT_VERBS_MESSAGE_H_
#define FARANDOLE_TRANSPORT_VERBS_MESSAGE_H_

#include <cstddef>
#include <cstdint>

#include "transport/channel.h"

// What two ends say on their queue pair for small messages. Little endian, as all machines we run on.
namespace farandole::transport::verbs {

// Ports of different devices that are used together.
inline constexpr int kDevicesMax = 4;
inline constexpr int kQueuePairsMax = 16;

// Room that each end keeps for the other: frames, which may have to wait for their receive; the rest, which is handled
// at once; and ends of large messages. A kCredit needs no credit: it is sent when half a window has been taken, and the
// peer cannot fill a window again before it has heard of that, so there are never more than two for each window.
inline constexpr uint32_t kFrameWindow = 16;
inline constexpr uint32_t kControlWindow = 16;
inline constexpr uint32_t kWriteWindow = 64;
inline constexpr uint32_t kCreditsMax = 6;

enum class MessageKind : uint8_t {
  kFrame = 1,  // a small send: tag, number, bytes; then the bytes
  kReady,      // a large receive: tag, id, bytes; then Target
  kAnnounce,   // the next send is a large one whose kReady has not come: tag, bytes
  kCancel,     // the receive with this id is withdrawn
  kCancelled,  // to that: nothing will be written for it (no answer: it has been written)
  kDiscard,    // receives with a tag below this will not come
  kCredit,     // only the counts
};

struct MessageHeader {
  MessageKind kind = MessageKind::kCredit;
  uint8_t unused = 0;
  uint16_t id = 0;
  // Of a send, large or small: in this order they arrive.
  uint32_t number = 0;
  // Taken in all, see Credit.
  uint32_t frames = 0;
  uint32_t controls = 0;
  uint32_t writes = 0;
  uint32_t unused2 = 0;
  uint64_t tag_high = 0;
  uint64_t tag_low = 0;
  uint64_t bytes = 0;

  Tag tag() const { return {tag_high, tag_low}; }
};
static_assert(sizeof(MessageHeader) == 48, "the wire format has no padding");

// Where the bytes of a large send go.
struct Target {
  uint64_t address = 0;
  uint32_t keys[kDevicesMax] = {};  // by the device of the queue pair that is written through
};
static_assert(sizeof(Target) == 24, "the wire format has no padding");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "messages travel as they lie in memory");

// Large receives that are offered at a time: no more come from a peer that keeps the rules.
inline constexpr size_t kOfferedMax = 1 << 15;

// What comes with the last bytes of a large send on each queue pair that it takes.
inline uint32_t WriteMark(uint16_t id, uint32_t number) { return uint32_t{id} << 16 | (number & 0xffff); }
inline uint16_t IdOfMark(uint32_t mark) { return static_cast<uint16_t>(mark >> 16); }
inline uint16_t NumberOfMark(uint32_t mark) { return static_cast<uint16_t>(mark); }

// Into how many parts a large send is divided, one for each queue pair that it takes: both ends know without saying.
inline int PartsOf(size_t bytes, int queue_pairs) {
  constexpr size_t kPartBytesMin = 256 << 10;
  const size_t parts = bytes / kPartBytesMin;
  return parts < 1 ? 1 : parts < static_cast<size_t>(queue_pairs) ? static_cast<int>(parts) : queue_pairs;
}

}  // namespace farandole::transport::verbs

#endif  // FARANDOLE_TRANSPORT_VERBS_MESSAGE_H_
