#include "transport/verbs/queue_pair.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/auth.h"

namespace farandole::transport::verbs {
namespace {

// Soft-RoCE takes 7 for "for ever".
constexpr int kRetries = 6;
// For ever: credits see to it that this does not happen.
constexpr int kNotReadyRetries = 7;
constexpr int kNotReadyTimer = 12;
constexpr int kHopLimit = 64;

ibv_mtu ToMtu(int bytes) {
  int mtu = IBV_MTU_256;
  while (mtu < IBV_MTU_4096 && (128 << (mtu + 1)) <= bytes) ++mtu;
  return static_cast<ibv_mtu>(mtu);
}

uint32_t RandomPacket() { return static_cast<uint32_t>(RandomId() & 0xffffff); }

}  // namespace

absl::StatusOr<std::unique_ptr<QueuePair>> QueuePair::Make(const Shape& shape, uint32_t owner, uint8_t place) {
  std::unique_ptr<QueuePair> pair(new QueuePair(shape, owner, place));
  absl::Status made = pair->Create();
  if (made.ok()) made = pair->Initialise();
  if (!made.ok()) return made;
  return pair;
}

QueuePair::QueuePair(const Shape& shape, uint32_t owner, uint8_t place) : shape_(shape), owner_(owner), place_(place) {}

QueuePair::~QueuePair() {
  if (qp_ != nullptr) shape_.device->api().destroy_qp(qp_);
  if (cq_ != nullptr) shape_.device->queues().Release(cq_, shape_.sends + shape_.receives + 2);
}

absl::Status QueuePair::Create() {
  // One more of each for what Break posts.
  absl::StatusOr<ibv_cq*> cq = shape_.device->queues().Reserve(shape_.sends + shape_.receives + 2);
  if (!cq.ok()) return cq.status();
  cq_ = *cq;
  ibv_qp_init_attr attributes{};
  attributes.send_cq = attributes.recv_cq = cq_;
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap.max_send_wr = shape_.sends + 1;
  attributes.cap.max_recv_wr = shape_.receives + 1;
  attributes.cap.max_send_sge = attributes.cap.max_recv_sge = 1;
  attributes.cap.max_inline_data = shape_.inline_bytes;
  qp_ = shape_.device->api().create_qp(shape_.device->pd(), &attributes);
  if (qp_ == nullptr && shape_.inline_bytes > 0) {
    // Not every device says how much it takes before.
    attributes.cap.max_inline_data = 0;
    qp_ = shape_.device->api().create_qp(shape_.device->pd(), &attributes);
  }
  if (qp_ == nullptr) {
    return absl::UnavailableError(absl::StrCat("the RDMA device ", shape_.device->name(),
                                               " gives no queue pair: ", std::strerror(errno),
                                               errno == ENOMEM ? "; see the limit of locked memory (ulimit -l)" : ""));
  }
  inline_bytes_ = attributes.cap.max_inline_data;
  local_.number = qp_->qp_num;
  local_.first_packet = RandomPacket();
  local_.gid = shape_.port.gid.gid;
  local_.lid = shape_.port.lid;
  local_.mtu = shape_.port.mtu;
  local_.ethernet = shape_.port.ethernet;
  local_.device = shape_.device_place;
  return absl::OkStatus();
}

absl::Status QueuePair::Modify(ibv_qp_attr* attributes, int mask, const char* to) {
  const int error = shape_.device->api().modify_qp(qp_, attributes, mask | IBV_QP_STATE);
  if (error == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("the RDMA device ", shape_.device->name(), " port ", shape_.port.port,
                                             " does not let a queue pair get ", to, ": ", std::strerror(error)));
}

absl::Status QueuePair::Initialise() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.pkey_index = shape_.pkey_index;
  attributes.port_num = shape_.port.port;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  return Modify(&attributes, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "initialised");
}

absl::Status QueuePair::Connect(const Endpoint& remote) {
  remote_ = remote;
  if (remote.ethernet != local_.ethernet) {
    return absl::UnavailableError("one end has a port of Ethernet, the other of InfiniBand; name the devices to use");
  }
  absl::Status ready = ReadyToReceive();
  if (ready.ok()) ready = ReadyToSend();
  return ready;
}

absl::Status QueuePair::ReadyToReceive() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = ToMtu(std::min(local_.mtu, remote_.mtu));
  attributes.dest_qp_num = remote_.number;
  attributes.rq_psn = remote_.first_packet;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = kNotReadyTimer;
  ibv_ah_attr& path = attributes.ah_attr;
  path.port_num = shape_.port.port;
  path.sl = shape_.service_level;
  path.dlid = remote_.lid;
  // InfiniBand within a subnet goes by LID alone.
  const bool same_subnet = std::equal(remote_.gid.begin(), remote_.gid.begin() + 8, local_.gid.begin());
  if (local_.ethernet || remote_.lid == 0 || !same_subnet) {
    path.is_global = 1;
    std::memcpy(path.grh.dgid.raw, remote_.gid.data(), remote_.gid.size());
    path.grh.sgid_index = shape_.port.gid.index;
    path.grh.hop_limit = kHopLimit;
    path.grh.traffic_class = shape_.traffic_class;
  }
  return Modify(
      &attributes,
      IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
      "ready to receive (does a route lead to the peer's GID?)");
}

absl::Status QueuePair::ReadyToSend() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = shape_.timeout;
  attributes.retry_cnt = kRetries;
  attributes.rnr_retry = kNotReadyRetries;
  attributes.sq_psn = local_.first_packet;
  attributes.max_rd_atomic = 1;
  return Modify(&attributes,
                IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
                "ready to send");
}

absl::Status QueuePair::PostReceive(uint16_t index, void* data, uint32_t bytes, uint32_t local_key) {
  ibv_sge part{reinterpret_cast<uint64_t>(data), bytes, local_key};
  ibv_recv_wr request{};
  request.wr_id = WorkId{owner_, place_, WorkId::Kind::kReceive, index}.Pack();
  request.sg_list = bytes > 0 ? &part : nullptr;
  request.num_sge = bytes > 0 ? 1 : 0;
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(qp_, &request, &bad);
  if (error == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("posting a receive buffer failed: ", std::strerror(error)));
}

absl::Status QueuePair::Post(const Work& work) {
  if (waiting_.empty()) {
    absl::StatusOr<bool> posted = TryPost(work);
    if (!posted.ok()) return posted.status();
    if (*posted) return absl::OkStatus();
  }
  waiting_.push_back({work, work.inlined ? std::string(static_cast<const char*>(work.data), work.bytes) : ""});
  return absl::OkStatus();
}

absl::StatusOr<bool> QueuePair::TryPost(const Work& work) {
  if (static_cast<int>(sent_.size()) >= shape_.sends) return false;
  const bool signaled = work.signaled || unsignaled_ + 1 >= std::max(1, shape_.sends / 4);
  ibv_sge part{reinterpret_cast<uint64_t>(work.data), work.bytes, work.local_key};
  ibv_send_wr request{};
  request.wr_id = WorkId{owner_, place_, WorkId::Kind::kSend, 0}.Pack();
  request.sg_list = work.bytes > 0 ? &part : nullptr;
  request.num_sge = work.bytes > 0 ? 1 : 0;
  request.opcode = work.opcode;
  request.send_flags = (signaled ? IBV_SEND_SIGNALED : 0) | (work.inlined ? IBV_SEND_INLINE : 0);
  request.imm_data = htonl(work.mark);
  request.wr.rdma.remote_addr = work.remote_address;
  request.wr.rdma.rkey = work.remote_key;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(qp_, &request, &bad);
  // Some devices' entries are of different sizes, so that they are full earlier: tried again after a completion.
  const bool comes = unsignaled_ < static_cast<int>(sent_.size());
  if ((error == ENOMEM || error == EAGAIN) && comes) return false;
  if (error != 0) return absl::UnavailableError(absl::StrCat("posting a send failed: ", std::strerror(error)));
  unsignaled_ = signaled ? 0 : unsignaled_ + 1;
  sent_.push_back({signaled, work.cookie});
  return true;
}

absl::Status QueuePair::Completed(std::vector<uint64_t>* cookies) {
  bool more = true;
  while (more && !sent_.empty()) {
    more = !sent_.front().signaled;
    if (sent_.front().cookie != 0) cookies->push_back(sent_.front().cookie);
    sent_.pop_front();
  }
  while (!waiting_.empty()) {
    Waiting& first = waiting_.front();
    if (first.work.inlined) first.work.data = first.copy.data();
    absl::StatusOr<bool> posted = TryPost(first.work);
    if (!posted.ok()) return posted.status();
    if (!*posted) break;
    waiting_.pop_front();
  }
  return absl::OkStatus();
}

void QueuePair::Break() {
  waiting_.clear();
  // In an error all work is flushed in order: when the last has been, all has. The receive comes first, as Soft-RoCE
  // looks at that queue only when the state changes.
  ibv_recv_wr receive{};
  receive.wr_id = WorkId{owner_, place_, WorkId::Kind::kLastReceive, 0}.Pack();
  ibv_recv_wr* bad_receive = nullptr;
  left_to_drain_ = ibv_post_recv(qp_, &receive, &bad_receive) == 0 ? 1 : 0;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  if (!Modify(&attributes, 0, "broken").ok()) {
    // Destroying it is what ends its work.
    left_to_drain_ = 0;
    return;
  }
  ibv_send_wr send{};
  send.wr_id = WorkId{owner_, place_, WorkId::Kind::kLastSend, 0}.Pack();
  send.opcode = IBV_WR_SEND;
  send.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad_send = nullptr;
  if (ibv_post_send(qp_, &send, &bad_send) == 0) ++left_to_drain_;
}

void QueuePair::Drained() {
  if (left_to_drain_ > 0) --left_to_drain_;
}

}  // namespace farandole::transport::verbs
