#include "transport/verbs/fake_queue_pair.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>
#include <utility>

#include "transport/verbs/fake_ibverbs.h"
#include "transport/verbs/fake_state.h"

namespace farandole::transport::verbs {
namespace {

// Packets that one queue pair sends or takes before others get their turn.
constexpr int kPacketsPerTurn = 32;

// In the abstract namespace, under the number of the queue pair.
socklen_t NameOf(uint32_t number, sockaddr_un* name) {
  *name = {};
  name->sun_family = AF_UNIX;
  const int n = snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "farandole-fake-verbs-%u", number);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + n);
}

bool IsWrite(uint32_t opcode) { return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM; }

}  // namespace

FakeQueuePair::FakeQueuePair(ibv_pd* pd, const ibv_qp_init_attr& attributes, int device, FakeMemory* memory)
    : device_(device), memory_(memory), cap_(attributes.cap), payload_(FakePacket::kBytesMax, '\0') {
  qp.context = pd->context;
  qp.pd = pd;
  qp.send_cq = attributes.send_cq;
  qp.recv_cq = attributes.recv_cq;
  qp.state = IBV_QPS_RESET;
  qp.qp_type = attributes.qp_type;
  fd_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  std::random_device random;
  for (int tries = 0; fd_ >= 0 && tries < 100; ++tries) {
    qp.qp_num = random() & 0xffffff;
    sockaddr_un name;
    const socklen_t length = NameOf(qp.qp_num, &name);
    if (bind(fd_, reinterpret_cast<sockaddr*>(&name), length) == 0) return;
  }
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

FakeQueuePair::~FakeQueuePair() {
  if (fd_ >= 0) close(fd_);
}

int FakeQueuePair::Modify(const ibv_qp_attr& attributes, int mask) {
  if ((mask & IBV_QP_STATE) == 0) return EINVAL;
  switch (attributes.qp_state) {
    case IBV_QPS_INIT:
      return Initialise(attributes, mask);
    case IBV_QPS_RTR:
      return BecomeReady(attributes, mask);
    case IBV_QPS_RTS: {
      constexpr int kNeeded =
          IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
      if (qp.state != IBV_QPS_RTR || (mask & kNeeded) != kNeeded) return EINVAL;
      first_sent_ = attributes.sq_psn;
      qp.state = IBV_QPS_RTS;
      return 0;
    }
    case IBV_QPS_ERR:
      Break(IBV_WC_WR_FLUSH_ERR);
      return 0;
    default:
      return EINVAL;
  }
}

int FakeQueuePair::Initialise(const ibv_qp_attr& attributes, int mask) {
  constexpr int kNeeded = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  if (qp.state != IBV_QPS_RESET || (mask & kNeeded) != kNeeded || attributes.port_num != 1) return EINVAL;
  access_ = attributes.qp_access_flags;
  qp.state = IBV_QPS_INIT;
  return 0;
}

int FakeQueuePair::BecomeReady(const ibv_qp_attr& attributes, int mask) {
  constexpr int kNeeded =
      IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  if (qp.state != IBV_QPS_INIT || (mask & kNeeded) != kNeeded) return EINVAL;
  if (fake_ibverbs.ethernet && attributes.ah_attr.is_global == 0) return EINVAL;
  const int row = attributes.ah_attr.is_global != 0 ? attributes.ah_attr.grh.sgid_index : 0;
  if (row >= kFakeGids) return EINVAL;
  if (attributes.ah_attr.is_global != 0) {
    std::memcpy(peer_gid_, attributes.ah_attr.grh.dgid.raw, sizeof peer_gid_);
    std::memcpy(own_gid_, FakeGid(device_, row).raw, sizeof own_gid_);
  }
  first_expected_ = attributes.rq_psn;
  sockaddr_un name;
  const socklen_t length = NameOf(attributes.dest_qp_num, &name);
  // Only that one's packets come from now on.
  if (connect(fd_, reinterpret_cast<sockaddr*>(&name), length) != 0) return ENETUNREACH;
  qp.state = IBV_QPS_RTR;
  return 0;
}

int FakeQueuePair::PostSend(const ibv_send_wr& request) {
  if (qp.state != IBV_QPS_RTS && qp.state != IBV_QPS_ERR) return EINVAL;
  if (request.num_sge > static_cast<int>(cap_.max_send_sge)) return EINVAL;
  if (fake_ibverbs.refuse[device_] > 0) {
    --fake_ibverbs.refuse[device_];
    return ENOMEM;
  }
  if (sends_.size() >= cap_.max_send_wr) return ENOMEM;
  Send send{request, {}, "", 0, false};
  if (request.num_sge > 0) send.part = request.sg_list[0];
  if (send.part.length > kFakeMessageBytesMax) return EINVAL;
  if ((request.send_flags & IBV_SEND_INLINE) != 0) {
    if (send.part.length > cap_.max_inline_data) return EINVAL;
    send.copy.assign(reinterpret_cast<const char*>(send.part.addr), send.part.length);
  }
  ++fake_ibverbs.sends;
  if (qp.state == IBV_QPS_ERR) {
    CompleteSend(send, IBV_WC_WR_FLUSH_ERR);
    return 0;
  }
  sends_.push_back(std::move(send));
  return 0;
}

int FakeQueuePair::PostReceive(const ibv_recv_wr& request) {
  if (qp.state == IBV_QPS_RESET || request.num_sge > static_cast<int>(cap_.max_recv_sge)) return EINVAL;
  if (receives_.size() >= cap_.max_recv_wr) return ENOMEM;
  const Receive receive{request.wr_id, request.num_sge > 0 ? request.sg_list[0] : ibv_sge{}};
  if (qp.state == IBV_QPS_ERR) {
    CompleteReceive(receive, IBV_WC_WR_FLUSH_ERR, nullptr);
  } else {
    receives_.push_back(receive);
  }
  return 0;
}

void FakeQueuePair::CompleteSend(const Send& send, ibv_wc_status status) {
  if (status == IBV_WC_SUCCESS && (send.request.send_flags & IBV_SEND_SIGNALED) == 0) return;
  ibv_wc completion{};
  completion.wr_id = send.request.wr_id;
  completion.status = status;
  completion.opcode = IsWrite(send.request.opcode) ? IBV_WC_RDMA_WRITE : IBV_WC_SEND;
  completion.qp_num = qp.qp_num;
  reinterpret_cast<FakeCompletionQueue*>(qp.send_cq)->Add(completion);
}

void FakeQueuePair::CompleteReceive(const Receive& receive, ibv_wc_status status, const FakePacket* packet) {
  ibv_wc completion{};
  completion.wr_id = receive.id;
  completion.status = status;
  completion.qp_num = qp.qp_num;
  completion.opcode = IBV_WC_RECV;
  if (packet != nullptr) {
    completion.byte_len = static_cast<uint32_t>(packet->total);
    if (packet->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
      completion.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
      completion.wc_flags = IBV_WC_WITH_IMM;
      completion.imm_data = packet->mark;
    }
  }
  reinterpret_cast<FakeCompletionQueue*>(qp.recv_cq)->Add(completion);
}

void FakeQueuePair::Break(ibv_wc_status status) {
  if (qp.state == IBV_QPS_ERR) return;
  qp.state = IBV_QPS_ERR;
  for (const Send& send : sends_) {
    CompleteSend(send, status);
    status = IBV_WC_WR_FLUSH_ERR;
  }
  sends_.clear();
  for (const Receive& receive : receives_) CompleteReceive(receive, IBV_WC_WR_FLUSH_ERR, nullptr);
  receives_.clear();
  gives_up_us_ = -1;
  full_ = stalled_ = false;
}

bool FakeQueuePair::Uses(uint32_t key) const {
  const auto sends = [key](const Send& send) {
    return send.copy.empty() && send.part.length > 0 && send.part.lkey == key;
  };
  const auto receives = [key](const Receive& receive) { return receive.part.length > 0 && receive.part.lkey == key; };
  const bool writing = Reads() && current_.total > 0 && IsWrite(current_.opcode) && current_.key == key;
  return std::any_of(sends_.begin(), sends_.end(), sends) || writing ||
         std::any_of(receives_.begin(), receives_.end(), receives);
}

void FakeQueuePair::Work(int64_t now_us) {
  if (Reads() && !fake_ibverbs.deaf[device_]) ReadPackets(now_us);
  if (Reads() || reply_due_) (void)SendReply();
  if (qp.state == IBV_QPS_RTS) SendRequests(now_us);
  if (gives_up_us_ >= 0 && gives_up_us_ <= now_us) Break(IBV_WC_RETRY_EXC_ERR);
}

FakeQueuePair::Outcome FakeQueuePair::Transmit(const FakePacket& packet, const char* data, size_t bytes) {
  iovec parts[2] = {{const_cast<FakePacket*>(&packet), sizeof packet}, {const_cast<char*>(data), bytes}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = bytes > 0 ? 2 : 1;
  const ssize_t n = sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  full_ = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS);
  if (n >= 0) return Outcome::kDone;
  return full_ ? Outcome::kFull : Outcome::kBroken;
}

bool FakeQueuePair::Fails() const {
  std::atomic<int>& left = fake_ibverbs.fail_after[device_];
  if (left == FakeVerbs::kNever) return false;
  return left.fetch_sub(1) == 0;
}

void FakeQueuePair::SendRequests(int64_t now_us) {
  uint32_t message = front_message_;
  int budget = kPacketsPerTurn;
  for (Send& send : sends_) {
    if (!send.started && Fails()) return Break(fake_ibverbs.fail_status[device_]);
    while (!send.done()) {
      if (budget-- == 0) {
        full_ = true;
        return;
      }
      const Outcome outcome = SendPart(&send, message);
      // A peer that is gone acknowledges nothing.
      if (gives_up_us_ < 0) gives_up_us_ = now_us + fake_ibverbs.retry_ms * int64_t{1000};
      if (outcome != Outcome::kDone || qp.state != IBV_QPS_RTS) return;
    }
    ++message;
  }
}

FakeQueuePair::Outcome FakeQueuePair::SendPart(Send* send, uint32_t message) {
  FakePacket packet;
  packet.message = (first_sent_ + message) & 0xffffff;
  packet.opcode = send->request.opcode;
  packet.mark = send->request.imm_data;
  packet.key = send->request.wr.rdma.rkey;
  packet.address = send->request.wr.rdma.remote_addr;
  packet.total = send->bytes();
  packet.offset = send->sent;
  std::memcpy(packet.gid, peer_gid_, sizeof packet.gid);
  const size_t bytes = std::min<size_t>(send->bytes() - send->sent, FakePacket::kBytesMax);
  const char* data = reinterpret_cast<const char*>(send->part.addr) + send->sent;
  if ((send->request.send_flags & IBV_SEND_INLINE) != 0) {
    data = send->copy.data() + send->sent;
  } else if (bytes > 0 && !memory_->Allows(qp.pd, send->part.lkey, send->part.addr, send->part.length, 0)) {
    Break(IBV_WC_LOC_PROT_ERR);
    return Outcome::kBroken;
  }
  const Outcome outcome = Transmit(packet, data, bytes);
  if (outcome != Outcome::kDone) return outcome;
  send->started = true;
  send->sent += bytes;
  return outcome;
}

// All messages before this one, by count, have arrived.
void FakeQueuePair::Acknowledged(uint32_t before) {
  while (!sends_.empty() && front_message_ != before && sends_.front().done()) {
    CompleteSend(sends_.front(), IBV_WC_SUCCESS);
    sends_.pop_front();
    ++front_message_;
  }
}

void FakeQueuePair::HandleReply(const FakePacket& packet, int64_t now_us) {
  // Numbers on the wire have 24 bits.
  const uint32_t base = (first_sent_ + front_message_) & 0xffffff;
  const uint32_t ahead = (packet.message - base) & 0xffffff;
  if (packet.kind == FakePacket::Kind::kAck) {
    if (ahead < sends_.size()) Acknowledged(front_message_ + ahead + 1);
  } else if (packet.kind == FakePacket::Kind::kRefused) {
    if (ahead < sends_.size()) Acknowledged(front_message_ + ahead);
    return Break(static_cast<ibv_wc_status>(packet.status));
  }
  const bool waits = !sends_.empty() && sends_.front().started && packet.kind != FakePacket::Kind::kNotReady;
  gives_up_us_ = waits ? now_us + fake_ibverbs.retry_ms * int64_t{1000} : -1;
}

void FakeQueuePair::ReadPackets(int64_t now_us) {
  if (stalled_) {
    if (receives_.empty()) return;
    stalled_ = false;
    HandleRequest();
  }
  for (int i = 0; i < kPacketsPerTurn && Reads() && !stalled_; ++i) {
    iovec parts[2] = {{&current_, sizeof current_}, {&payload_[0], payload_.size()}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    FakePacket before = current_;
    const ssize_t n = recvmsg(fd_, &message, MSG_DONTWAIT);
    if (n < static_cast<ssize_t>(sizeof current_)) {
      current_ = before;
      return;
    }
    if (current_.kind != FakePacket::Kind::kRequest) {
      const FakePacket reply = std::exchange(current_, before);
      HandleReply(reply, now_us);
      continue;
    }
    payload_bytes_ = static_cast<size_t>(n) - sizeof current_;
    HandleRequest();
  }
}

bool FakeQueuePair::NeedsBuffer(const FakePacket& packet) const {
  if (packet.opcode == IBV_WR_SEND) return true;
  return packet.opcode == IBV_WR_RDMA_WRITE_WITH_IMM && packet.offset + payload_bytes_ == packet.total;
}

void FakeQueuePair::HandleRequest() {
  const FakePacket packet = current_;
  // As if it had never come: of another connection, or for another port.
  if (packet.message != ((first_expected_ + expected_) & 0xffffff) ||
      std::memcmp(packet.gid, own_gid_, sizeof own_gid_) != 0) {
    current_ = {};
    return FakeMisuse("a packet came that is out of order, or not for this port");
  }
  if (NeedsBuffer(packet) && receives_.empty()) {
    stalled_ = true;
    ++fake_ibverbs.not_ready;
    reply_due_ = true;
    reply_ = {};
    reply_.kind = FakePacket::Kind::kNotReady;
    reply_.message = (first_expected_ + expected_ - 1) & 0xffffff;
    return;
  }
  const ibv_wc_status placed = Place(packet, payload_.data(), payload_bytes_);
  if (placed != IBV_WC_SUCCESS) return Refuse(packet, placed);
  if (packet.offset + payload_bytes_ == packet.total) Arrived(packet);
}

ibv_wc_status FakeQueuePair::Place(const FakePacket& packet, const char* data, size_t bytes) {
  if (IsWrite(packet.opcode)) {
    if (packet.total == 0) return IBV_WC_SUCCESS;
    if ((access_ & IBV_ACCESS_REMOTE_WRITE) == 0 ||
        !memory_->Allows(qp.pd, packet.key, packet.address, packet.total, IBV_ACCESS_REMOTE_WRITE)) {
      return IBV_WC_REM_ACCESS_ERR;
    }
    std::memcpy(reinterpret_cast<char*>(packet.address) + packet.offset, data, bytes);
    return IBV_WC_SUCCESS;
  }
  const ibv_sge& part = receives_.front().part;
  if (packet.total > part.length) return IBV_WC_REM_INV_REQ_ERR;
  if (packet.total == 0) return IBV_WC_SUCCESS;
  if (!memory_->Allows(qp.pd, part.lkey, part.addr, part.length, IBV_ACCESS_LOCAL_WRITE)) return IBV_WC_REM_OP_ERR;
  std::memcpy(reinterpret_cast<char*>(part.addr) + packet.offset, data, bytes);
  return IBV_WC_SUCCESS;
}

void FakeQueuePair::Arrived(const FakePacket& packet) {
  if (NeedsBuffer(packet)) {
    CompleteReceive(receives_.front(), IBV_WC_SUCCESS, &packet);
    receives_.pop_front();
  }
  ++expected_;
  reply_due_ = true;
  reply_ = {};
  reply_.kind = FakePacket::Kind::kAck;
  reply_.message = packet.message;
  current_ = {};
}

void FakeQueuePair::Refuse(const FakePacket& packet, ibv_wc_status status) {
  reply_due_ = true;
  reply_ = {};
  reply_.kind = FakePacket::Kind::kRefused;
  reply_.message = packet.message;
  reply_.status = status;
  current_ = {};
  if (status != IBV_WC_REM_ACCESS_ERR && !receives_.empty()) {
    CompleteReceive(receives_.front(), status == IBV_WC_REM_OP_ERR ? IBV_WC_LOC_PROT_ERR : IBV_WC_LOC_LEN_ERR, nullptr);
    receives_.pop_front();
  }
  Break(IBV_WC_WR_FLUSH_ERR);
}

FakeQueuePair::Outcome FakeQueuePair::SendReply() {
  if (!reply_due_) return Outcome::kDone;
  const Outcome outcome = Transmit(reply_, nullptr, 0);
  if (outcome != Outcome::kFull) reply_due_ = false;
  return outcome;
}

}  // namespace farandole::transport::verbs
