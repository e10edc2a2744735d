#ifndef FARANDOLE_TRANSPORT_VERBS_FAKE_PACKET_H_
#define FARANDOLE_TRANSPORT_VERBS_FAKE_PACKET_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace farandole::transport::verbs {

// What the queue pairs of fake devices send each other, each in a datagram.
struct FakePacket {
  enum class Kind : uint32_t {
    kRequest,   // a part of a send or write
    kAck,       // all messages up to this number have arrived
    kRefused,   // this one has not, and why; all before have
    kNotReady,  // this one waits for a receive buffer
  };
  static constexpr size_t kBytesMax = 60 << 10;

  Kind kind = Kind::kRequest;
  uint32_t message = 0;  // its number, from the first packet number that both ends know
  uint32_t opcode = 0;   // ibv_wr_opcode
  uint32_t status = 0;   // ibv_wc_status
  uint32_t mark = 0;     // as it lies in memory
  uint32_t key = 0;
  uint64_t address = 0;  // of the whole message
  uint64_t total = 0;
  uint64_t offset = 0;
  uint8_t gid[16] = {};  // whom it is for
};

}  // namespace farandole::transport::verbs

#endif  // FARANDOLE_TRANSPORT_VERBS_FAKE_PACKET_H_
