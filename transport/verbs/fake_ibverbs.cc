#include "transport/verbs/fake_ibverbs.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>

#include "transport/verbs/fake_completion_queue.h"
#include "transport/verbs/fake_device.h"
#include "transport/verbs/fake_state.h"

// The functions of libibverbs that Farandole calls.

using farandole::transport::verbs::FakeCompletionChannel;
using farandole::transport::verbs::FakeCompletionQueue;
using farandole::transport::verbs::FakeDevice;
using farandole::transport::verbs::FakeGid;
using farandole::transport::verbs::FakeMisuse;
using farandole::transport::verbs::FakeNowUs;
using farandole::transport::verbs::FakeQueuePair;
using farandole::transport::verbs::FakeVerbs;
using farandole::transport::verbs::kFakeGids;
using farandole::transport::verbs::kFakeMessageBytesMax;

#undef ibv_reg_mr
#undef ibv_query_port

namespace {

ibv_device* Devices() {
  static ibv_device devices[FakeVerbs::kDevicesMax];
  static const bool named = [] {
    for (int i = 0; i < FakeVerbs::kDevicesMax; ++i) snprintf(devices[i].name, sizeof devices[i].name, "fake%d", i);
    return true;
  }();
  (void)named;
  return devices;
}

int PollQueue(ibv_cq* cq, int most, ibv_wc* completions) {
  std::lock_guard<std::mutex> lock(FakeDevice::Of(cq->context)->mutex());
  return reinterpret_cast<FakeCompletionQueue*>(cq)->Poll(most, completions);
}

int ArmQueue(ibv_cq* cq, int) {
  std::lock_guard<std::mutex> lock(FakeDevice::Of(cq->context)->mutex());
  reinterpret_cast<FakeCompletionQueue*>(cq)->Arm();
  return 0;
}

int PostSend(ibv_qp* qp, ibv_send_wr* request, ibv_send_wr** bad) {
  FakeDevice* const device = FakeDevice::Of(qp->context);
  int error = 0;
  {
    std::lock_guard<std::mutex> lock(device->mutex());
    for (; request != nullptr && error == 0; request = request->next) {
      *bad = request;
      error = reinterpret_cast<FakeQueuePair*>(qp)->PostSend(*request);
    }
  }
  device->Wake();
  return error;
}

int PostReceive(ibv_qp* qp, ibv_recv_wr* request, ibv_recv_wr** bad) {
  FakeDevice* const device = FakeDevice::Of(qp->context);
  int error = 0;
  bool wake;
  {
    std::lock_guard<std::mutex> lock(device->mutex());
    for (; request != nullptr && error == 0; request = request->next) {
      *bad = request;
      error = reinterpret_cast<FakeQueuePair*>(qp)->PostReceive(*request);
    }
    wake = reinterpret_cast<FakeQueuePair*>(qp)->stalled() || qp->state == IBV_QPS_ERR;
  }
  if (wake) device->Wake();
  return error;
}

}  // namespace

extern "C" {

ibv_device** ibv_get_device_list(int* count) {
  *count = fake_ibverbs.devices;
  auto** const list = new ibv_device*[FakeVerbs::kDevicesMax + 1]();
  for (int i = 0; i < *count; ++i) list[i] = &Devices()[i];
  return list;
}

void ibv_free_device_list(ibv_device** list) { delete[] list; }

const char* ibv_get_device_name(ibv_device* device) { return device->name; }

ibv_context* ibv_open_device(ibv_device* device) {
  auto* const opened = new FakeDevice(device, static_cast<int>(device - Devices()));
  opened->context.ops.poll_cq = PollQueue;
  opened->context.ops.req_notify_cq = ArmQueue;
  opened->context.ops.post_send = PostSend;
  opened->context.ops.post_recv = PostReceive;
  return &opened->context;
}

int ibv_close_device(ibv_context* context) {
  delete FakeDevice::Of(context);
  return 0;
}

int ibv_query_device(ibv_context*, ibv_device_attr* attributes) {
  *attributes = {};
  attributes->phys_port_cnt = 1;
  attributes->max_cqe = fake_ibverbs.queue_entries_max;
  attributes->max_qp_wr = 1024;
  return 0;
}

int ibv_query_port(ibv_context* context, uint8_t number, _compat_ibv_port_attr* attributes) {
  if (number != 1) return EINVAL;
  ibv_port_attr port{};
  port.state = fake_ibverbs.active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  port.active_mtu = port.max_mtu = IBV_MTU_4096;
  port.gid_tbl_len = kFakeGids;
  port.max_msg_sz = kFakeMessageBytesMax;
  port.link_layer = fake_ibverbs.ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
  port.lid = fake_ibverbs.ethernet ? 0 : static_cast<uint16_t>(10 + FakeDevice::Of(context)->number());
  std::memcpy(static_cast<void*>(attributes), &port, sizeof port);
  return 0;
}

int _ibv_query_gid_ex(ibv_context* context, uint32_t port, uint32_t index, ibv_gid_entry* entry, uint32_t, size_t) {
  if (port != 1 || index >= static_cast<uint32_t>(kFakeGids)) return EINVAL;
  if (!fake_ibverbs.addresses) return ENODATA;
  *entry = {};
  entry->gid = FakeGid(FakeDevice::Of(context)->number(), static_cast<int>(index));
  entry->gid_index = index;
  entry->port_num = port;
  entry->gid_type = !fake_ibverbs.ethernet ? IBV_GID_TYPE_IB
                    : index % 2 == 1       ? IBV_GID_TYPE_ROCE_V2
                                           : IBV_GID_TYPE_ROCE_V1;
  return 0;
}

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  ++fake_ibverbs.live_objects;
  return new ibv_pd{context, 0};
}

int ibv_dealloc_pd(ibv_pd* pd) {
  FakeDevice* const device = FakeDevice::Of(pd->context);
  std::lock_guard<std::mutex> lock(device->mutex());
  if (device->UsesDomain(pd)) {
    FakeMisuse("a protection domain was destroyed that is in use");
    return EBUSY;
  }
  delete pd;
  --fake_ibverbs.live_objects;
  return 0;
}

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* data, size_t bytes, int access) {
  FakeDevice* const device = FakeDevice::Of(pd->context);
  std::lock_guard<std::mutex> lock(device->mutex());
  return device->memory().Register(pd, data, bytes, access);
}

int ibv_dereg_mr(ibv_mr* mr) {
  FakeDevice* const device = FakeDevice::Of(mr->context);
  std::lock_guard<std::mutex> lock(device->mutex());
  if (device->UsesMemory(mr->lkey)) FakeMisuse("memory was given back that the device may still access");
  device->memory().Deregister(mr);
  return 0;
}

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  auto* const channel = new FakeCompletionChannel();
  channel->channel.context = context;
  channel->channel.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
  ++fake_ibverbs.live_objects;
  return &channel->channel;
}

int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  close(channel->fd);
  delete reinterpret_cast<FakeCompletionChannel*>(channel);
  --fake_ibverbs.live_objects;
  return 0;
}

ibv_cq* ibv_create_cq(ibv_context* context, int entries, void*, ibv_comp_channel* channel, int) {
  FakeDevice* const device = FakeDevice::Of(context);
  std::lock_guard<std::mutex> lock(device->mutex());
  if (entries < 1 || entries > fake_ibverbs.queue_entries_max) {
    errno = EINVAL;
    return nullptr;
  }
  return device->CreateQueue(channel, entries);
}

int ibv_destroy_cq(ibv_cq* cq) {
  FakeDevice* const device = FakeDevice::Of(cq->context);
  std::lock_guard<std::mutex> lock(device->mutex());
  return device->DestroyQueue(cq);
}

int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  uint64_t count;
  if (read(channel->fd, &count, sizeof count) != sizeof count) return -1;
  std::lock_guard<std::mutex> lock(FakeDevice::Of(channel->context)->mutex());
  auto& events = reinterpret_cast<FakeCompletionChannel*>(channel)->events;
  *cq = events.front();
  *cq_context = nullptr;
  events.pop_front();
  return 0;
}

void ibv_ack_cq_events(ibv_cq* cq, unsigned count) {
  std::lock_guard<std::mutex> lock(FakeDevice::Of(cq->context)->mutex());
  reinterpret_cast<FakeCompletionQueue*>(cq)->acknowledged += count;
}

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
  FakeDevice* const device = FakeDevice::Of(pd->context);
  if (attributes->qp_type != IBV_QPT_RC || attributes->cap.max_send_wr > 1024 || attributes->cap.max_recv_wr > 1024 ||
      static_cast<int>(attributes->cap.max_inline_data) > fake_ibverbs.inline_bytes) {
    errno = EINVAL;
    return nullptr;
  }
  std::lock_guard<std::mutex> lock(device->mutex());
  return device->CreatePair(pd, *attributes);
}

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  FakeDevice* const device = FakeDevice::Of(qp->context);
  int error;
  {
    std::lock_guard<std::mutex> lock(device->mutex());
    error = reinterpret_cast<FakeQueuePair*>(qp)->Modify(*attributes, mask);
  }
  device->Wake();
  return error;
}

int ibv_destroy_qp(ibv_qp* qp) {
  FakeDevice* const device = FakeDevice::Of(qp->context);
  std::lock_guard<std::mutex> lock(device->mutex());
  return device->DestroyPair(qp);
}

int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  uint64_t count;
  if (read(context->async_fd, &count, sizeof count) != sizeof count) return -1;
  FakeDevice* const device = FakeDevice::Of(context);
  std::lock_guard<std::mutex> lock(device->mutex());
  if (!device->TakeRemoval()) return -1;
  *event = {};
  event->event_type = IBV_EVENT_DEVICE_FATAL;
  return 0;
}

void ibv_ack_async_event(ibv_async_event*) {}

// As the real one, not to be called by two threads at a time.
int ibv_fork_init() {
  static std::atomic<int> inside{0};
  if (inside++ > 0) FakeMisuse("two threads prepare for forks at once");
  for (const int64_t end_us = FakeNowUs() + 2000; FakeNowUs() < end_us;) std::this_thread::yield();
  --inside;
  return 0;
}

const char* ibv_event_type_str(ibv_event_type type) {
  return type == IBV_EVENT_DEVICE_FATAL ? "local catastrophic error" : "another event";
}

const char* ibv_wc_status_str(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return "success";
    case IBV_WC_LOC_LEN_ERR:
      return "local length error";
    case IBV_WC_LOC_PROT_ERR:
      return "local protection error";
    case IBV_WC_WR_FLUSH_ERR:
      return "Work Request Flushed Error";
    case IBV_WC_REM_INV_REQ_ERR:
      return "remote invalid request error";
    case IBV_WC_REM_ACCESS_ERR:
      return "remote access error";
    case IBV_WC_REM_OP_ERR:
      return "remote operation error";
    case IBV_WC_RETRY_EXC_ERR:
      return "transport retry counter exceeded";
    default:
      return "another error";
  }
}

}  // extern "C"
