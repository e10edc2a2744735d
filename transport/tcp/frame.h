#ifndef FARANDOLE_TRANSPORT_TCP_FRAME_H_
#define FARANDOLE_TRANSPORT_TCP_FRAME_H_

#include <cstdint>

#include "transport/channel.h"

namespace farandole::transport::tcp {

// What precedes the bytes of every send on a connection. Little endian, as all machines we run on.
struct FrameHeader {
  uint64_t tag_high = 0;
  uint64_t tag_low = 0;
  uint64_t bytes = 0;

  Tag tag() const { return {tag_high, tag_low}; }
};
static_assert(sizeof(FrameHeader) == 24, "the wire format has no padding");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "headers travel as they lie in memory");

// Why reading or writing stopped.
enum class IoProgress {
  kIdle,    // nothing left to do until something is posted
  kSocket,  // the socket is full or empty; it will say when that changes
  kBudget,  // more could be done at once
};

}  // namespace farandole::transport::tcp

#endif  // FARANDOLE_TRANSPORT_TCP_FRAME_H_
