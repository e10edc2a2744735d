#ifndef FARANDOLE_TRANSPORT_VERBS_QUEUE_PAIR_H_
#define FARANDOLE_TRANSPORT_VERBS_QUEUE_PAIR_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/verbs/device.h"
#include "transport/verbs/endpoint.h"
#include "transport/verbs/port_choice.h"

namespace farandole::transport::verbs {

// What a completion belongs to, as the number that travels through the device. No pointer: a completion may be found
// after its owner has gone.
struct WorkId {
  enum class Kind : uint8_t { kSend, kReceive, kLastSend, kLastReceive };
  uint32_t owner = 0;
  uint8_t queue_pair = 0;
  Kind kind = Kind::kSend;
  uint16_t index = 0;

  uint64_t Pack() const {
    return uint64_t{owner} << 32 | uint64_t{queue_pair} << 24 | uint64_t{static_cast<uint8_t>(kind)} << 16 | index;
  }
  static WorkId Unpack(uint64_t id) {
    return {static_cast<uint32_t>(id >> 32), static_cast<uint8_t>(id >> 24), static_cast<Kind>(id >> 16 & 0xff),
            static_cast<uint16_t>(id)};
  }
};

// Something to send or write.
struct Work {
  ibv_wr_opcode opcode = IBV_WR_SEND;
  const void* data = nullptr;
  uint32_t bytes = 0;
  uint32_t local_key = 0;
  // Copied by the call that posts it.
  bool inlined = false;
  uint64_t remote_address = 0;
  uint32_t remote_key = 0;
  uint32_t mark = 0;
  // Its owner waits for its end.
  bool signaled = false;
  // Given back when it has ended, unless 0.
  uint64_t cookie = 0;
};

// One reliable connection. Work that the send queue has no room for waits here. Only some of it is signaled: a
// completion ends all before it, too.
//
//   made, INIT --Connect--> RTS --Break--> ERROR --all work flushed--> drained
//
// All on the loop's thread.
class QueuePair {
 public:
  struct Shape {
    Device* device = nullptr;
    int device_place = 0;
    PortChoice port;
    int sends = 0;
    int receives = 0;
    uint32_t inline_bytes = 0;
    int pkey_index = 0;
    int service_level = 0;
    int traffic_class = 0;
    int timeout = 0;
  };
  // `owner` and `place` are what WorkIds will say. UNAVAILABLE: the device refuses.
  static absl::StatusOr<std::unique_ptr<QueuePair>> Make(const Shape& shape, uint32_t owner, uint8_t place);
  // The device is done with all memory of its work when this returns.
  ~QueuePair();
  QueuePair(const QueuePair&) = delete;

  const Endpoint& local() const { return local_; }
  const Endpoint& remote() const { return remote_; }
  // What may be sent inlined.
  uint32_t inline_bytes() const { return inline_bytes_; }

  absl::Status Connect(const Endpoint& remote);
  // The completion will have `index`.
  absl::Status PostReceive(uint16_t index, void* data, uint32_t bytes, uint32_t local_key);
  absl::Status Post(const Work& work);
  // Some waits.
  bool backlog() const { return !waiting_.empty(); }
  // A send has been completed: adds the cookies of what has ended, and posts what waits.
  absl::Status Completed(std::vector<uint64_t>* cookies);

  // Ends all work: it is flushed.
  void Break();
  // A completion of what Break has posted last.
  void Drained();
  bool drained() const { return left_to_drain_ == 0; }

 private:
  struct Waiting {
    Work work;
    std::string copy;  // of what is inlined
  };
  struct Sent {
    bool signaled;
    uint64_t cookie;
  };

  QueuePair(const Shape& shape, uint32_t owner, uint8_t place);
  absl::Status Create();
  absl::Status Initialise();
  absl::Status ReadyToReceive();
  absl::Status ReadyToSend();
  absl::Status Modify(ibv_qp_attr* attributes, int mask, const char* to);
  // False: the send queue is full.
  absl::StatusOr<bool> TryPost(const Work& work);

  const Shape shape_;
  const uint32_t owner_;
  const uint8_t place_;
  ibv_cq* cq_ = nullptr;
  ibv_qp* qp_ = nullptr;
  Endpoint local_;
  Endpoint remote_;
  uint32_t inline_bytes_ = 0;
  std::deque<Sent> sent_;
  std::deque<Waiting> waiting_;
  int unsignaled_ = 0;  // since the last that was signaled
  int left_to_drain_ = 0;
};

}  // namespace farandole::transport::verbs

#endif  // FARANDOLE_TRANSPORT_VERBS_QUEUE_PAIR_H_
