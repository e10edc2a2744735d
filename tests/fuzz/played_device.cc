#include "tests/fuzz/played_device.h"

#include <arpa/inet.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#undef ibv_reg_mr
#undef ibv_query_port

namespace farandole::fuzz {

std::vector<PlayedPair*>& PlayedPairs() {
  static auto* const pairs = new std::vector<PlayedPair*>();
  return *pairs;
}

namespace {

constexpr uint32_t kInlineBytes = 220;

[[noreturn]] void Misused(const char* how) {
  std::fprintf(stderr, "the device was misused: %s\n", how);
  std::abort();
}

PlayedPair* Of(ibv_qp* qp) { return reinterpret_cast<PlayedPair*>(qp); }

int PostSend(ibv_qp* qp, ibv_send_wr* request, ibv_send_wr**) {
  PlayedPair* const pair = Of(qp);
  if (pair->sends.size() >= pair->sends_max) Misused("a send queue is full");
  PlayedPair::Send send{request->wr_id,
                        request->opcode,
                        (request->send_flags & IBV_SEND_SIGNALED) != 0,
                        ntohl(request->imm_data),
                        {},
                        nullptr,
                        0,
                        0};
  if (request->num_sge > 0) {
    send.data = reinterpret_cast<const char*>(request->sg_list[0].addr);
    send.bytes = request->sg_list[0].length;
    send.key = request->sg_list[0].lkey;
  }
  const bool inlined = (request->send_flags & IBV_SEND_INLINE) != 0;
  if (inlined && send.bytes > kInlineBytes) Misused("more was sent inline than it takes");
  if (request->opcode == IBV_WR_SEND) send.copy.assign(send.data, send.bytes);
  if (inlined) send.bytes = 0;
  pair->sends.push_back(std::move(send));
  return 0;
}

int PostReceive(ibv_qp* qp, ibv_recv_wr* request, ibv_recv_wr**) {
  PlayedPair* const pair = Of(qp);
  if (pair->receives.size() >= pair->receives_max) Misused("a receive queue is full");
  PlayedPair::Receive receive{request->wr_id, nullptr, 0};
  if (request->num_sge > 0) {
    receive.data = reinterpret_cast<char*>(request->sg_list[0].addr);
    receive.bytes = request->sg_list[0].length;
  }
  pair->receives.push_back(receive);
  return 0;
}

ibv_device* TheDevice() {
  static ibv_device device;
  std::snprintf(device.name, sizeof device.name, "played");
  return &device;
}

}  // namespace
}  // namespace farandole::fuzz

using farandole::fuzz::kInlineBytes;
using farandole::fuzz::Misused;
using farandole::fuzz::Of;
using farandole::fuzz::PlayedPair;
using farandole::fuzz::PlayedPairs;

extern "C" {

ibv_device** ibv_get_device_list(int* count) {
  *count = 1;
  return new ibv_device* [2] { farandole::fuzz::TheDevice(), nullptr };
}

void ibv_free_device_list(ibv_device** list) { delete[] list; }

const char* ibv_get_device_name(ibv_device* device) { return device->name; }

ibv_context* ibv_open_device(ibv_device* device) {
  auto* const context = new ibv_context();
  context->device = device;
  context->async_fd = eventfd(0, EFD_CLOEXEC);
  context->ops.post_send = farandole::fuzz::PostSend;
  context->ops.post_recv = farandole::fuzz::PostReceive;
  return context;
}

int ibv_close_device(ibv_context* context) {
  close(context->async_fd);
  delete context;
  return 0;
}

int ibv_query_device(ibv_context*, ibv_device_attr* attributes) {
  *attributes = {};
  attributes->phys_port_cnt = 1;
  attributes->max_cqe = 1 << 16;
  return 0;
}

int ibv_query_port(ibv_context*, uint8_t, _compat_ibv_port_attr*) { return EINVAL; }

int _ibv_query_gid_ex(ibv_context*, uint32_t, uint32_t, ibv_gid_entry*, uint32_t, size_t) { return EINVAL; }

ibv_pd* ibv_alloc_pd(ibv_context* context) { return new ibv_pd{context, 0}; }

int ibv_dealloc_pd(ibv_pd* pd) {
  delete pd;
  return 0;
}

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* data, size_t bytes, int) {
  static uint32_t next_key = 0;
  auto* const mr = new ibv_mr();
  mr->context = pd->context;
  mr->addr = data;
  mr->length = bytes;
  mr->lkey = mr->rkey = ++next_key;
  return mr;
}

int ibv_dereg_mr(ibv_mr* mr) {
  for (const PlayedPair* pair : PlayedPairs()) {
    for (const PlayedPair::Send& send : pair->sends) {
      if (send.bytes > 0 && send.key == mr->lkey) Misused("memory was given back that it may still read");
    }
  }
  delete mr;
  return 0;
}

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  auto* const channel = new ibv_comp_channel();
  channel->context = context;
  channel->fd = eventfd(0, EFD_CLOEXEC);
  return channel;
}

int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  close(channel->fd);
  delete channel;
  return 0;
}

ibv_cq* ibv_create_cq(ibv_context* context, int entries, void*, ibv_comp_channel* channel, int) {
  auto* const cq = new ibv_cq();
  cq->context = context;
  cq->channel = channel;
  cq->cqe = entries;
  return cq;
}

int ibv_destroy_cq(ibv_cq* cq) {
  delete cq;
  return 0;
}

int ibv_get_cq_event(ibv_comp_channel*, ibv_cq**, void**) { return -1; }

void ibv_ack_cq_events(ibv_cq*, unsigned) {}

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
  static uint32_t next_number = 0;
  auto* const pair = new PlayedPair();
  pair->qp.context = pd->context;
  pair->qp.qp_num = ++next_number;
  pair->sends_max = attributes->cap.max_send_wr;
  pair->receives_max = attributes->cap.max_recv_wr;
  attributes->cap.max_inline_data = std::min(attributes->cap.max_inline_data, kInlineBytes);
  PlayedPairs().push_back(pair);
  return &pair->qp;
}

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  if ((mask & IBV_QP_STATE) != 0) qp->state = attributes->qp_state;
  return 0;
}

int ibv_destroy_qp(ibv_qp* qp) {
  auto& pairs = PlayedPairs();
  pairs.erase(std::find(pairs.begin(), pairs.end(), Of(qp)));
  delete Of(qp);
  return 0;
}

int ibv_get_async_event(ibv_context*, ibv_async_event*) { return -1; }

void ibv_ack_async_event(ibv_async_event*) {}

const char* ibv_event_type_str(ibv_event_type) { return "an event"; }

const char* ibv_wc_status_str(ibv_wc_status) { return "an error"; }

}  // extern "C"
