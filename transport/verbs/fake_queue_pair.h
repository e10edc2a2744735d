#ifndef FARANDOLE_TRANSPORT_VERBS_FAKE_QUEUE_PAIR_H_
#define FARANDOLE_TRANSPORT_VERBS_FAKE_QUEUE_PAIR_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <deque>
#include <string>

#include "transport/verbs/fake_completion_queue.h"
#include "transport/verbs/fake_memory.h"
#include "transport/verbs/fake_packet.h"

namespace farandole::transport::verbs {

// A queue pair of a fake device: requester and responder of a reliable connection. Under the device's lock.
class FakeQueuePair {
 public:
  // Valid if fd() is.
  FakeQueuePair(ibv_pd* pd, const ibv_qp_init_attr& attributes, int device, FakeMemory* memory);
  ~FakeQueuePair();
  FakeQueuePair(const FakeQueuePair&) = delete;

  // First: its address is this object's.
  ibv_qp qp{};
  int fd() const { return fd_; }

  // As the calls of their names: 0 or an error number.
  int Modify(const ibv_qp_attr& attributes, int mask);
  int PostSend(const ibv_send_wr& request);
  int PostReceive(const ibv_recv_wr& request);

  // Device: takes what has arrived, and sends what can be sent.
  void Work(int64_t now_us);
  // Takes what arrives.
  bool Reads() const { return qp.state == IBV_QPS_RTR || qp.state == IBV_QPS_RTS; }
  // True if there is something to send that the peer's socket has no room for.
  bool full() const { return full_; }
  // Waits for a receive buffer, and so for none of what arrives.
  bool stalled() const { return stalled_; }
  // When it gives up waiting for an acknowledgement; -1: it does not wait.
  int64_t gives_up_us() const { return gives_up_us_; }
  // Ends all work, the first with this status.
  void Break(ibv_wc_status status);
  // The device may still access this memory.
  bool Uses(uint32_t key) const;

 private:
  struct Send {
    ibv_send_wr request;
    ibv_sge part;
    std::string copy;  // of what is inlined
    uint64_t sent = 0;
    bool started = false;
    uint64_t bytes() const { return part.length; }
    bool done() const { return started && sent == bytes(); }
  };
  struct Receive {
    uint64_t id;
    ibv_sge part;
  };
  enum class Outcome { kDone, kFull, kBroken };

  int Initialise(const ibv_qp_attr& attributes, int mask);
  int BecomeReady(const ibv_qp_attr& attributes, int mask);
  // Requester.
  void SendRequests(int64_t now_us);
  Outcome SendPart(Send* send, uint32_t message);
  void Acknowledged(uint32_t before);
  void CompleteSend(const Send& send, ibv_wc_status status);
  bool Fails() const;
  // Responder.
  void ReadPackets(int64_t now_us);
  void HandleReply(const FakePacket& packet, int64_t now_us);
  void HandleRequest();
  bool NeedsBuffer(const FakePacket& packet) const;
  ibv_wc_status Place(const FakePacket& packet, const char* data, size_t bytes);
  void Arrived(const FakePacket& packet);
  void Refuse(const FakePacket& packet, ibv_wc_status status);
  Outcome SendReply();
  Outcome Transmit(const FakePacket& packet, const char* data, size_t bytes);
  void CompleteReceive(const Receive& receive, ibv_wc_status status, const FakePacket* packet);

  const int device_;
  FakeMemory* const memory_;
  const ibv_qp_cap cap_;
  int fd_ = -1;
  unsigned access_ = 0;
  uint8_t peer_gid_[16] = {};
  uint8_t own_gid_[16] = {};
  uint32_t first_sent_ = 0;
  uint32_t first_expected_ = 0;

  std::deque<Send> sends_;  // not acknowledged
  uint32_t front_message_ = 0;
  int64_t gives_up_us_ = -1;
  bool full_ = false;

  std::deque<Receive> receives_;
  uint32_t expected_ = 0;
  bool stalled_ = false;
  FakePacket current_;
  std::string payload_;
  size_t payload_bytes_ = 0;
  bool reply_due_ = false;
  FakePacket reply_;
};

}  // namespace farandole::transport::verbs

#endif  // FARANDOLE_TRANSPORT_VERBS_FAKE_QUEUE_PAIR_H_
