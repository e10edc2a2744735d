#include "transport/verbs/fake_device.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "transport/verbs/fake_ibverbs.h"
#include "transport/verbs/fake_state.h"

namespace farandole::transport::verbs {
namespace {

// How often what a test sets is looked at.
constexpr int kTickMs = 5;

}  // namespace

FakeDevice::FakeDevice(ibv_device* device, int number)
    : number_(number), epoll_(epoll_create1(EPOLL_CLOEXEC)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  context.device = device;
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0) FakeMisuse("no descriptors are left");
  context.async_fd = ends[0];
  telling_ = ends[1];
  context.cmd_fd = -1;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u32 = UINT32_MAX;
  epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &event);
  thread_ = std::thread([this] { Run(); });
}

FakeDevice::~FakeDevice() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
    if (!pairs_.empty() || !queues_.empty()) FakeMisuse("a device was closed with queues or queue pairs");
  }
  Wake();
  thread_.join();
  pairs_.clear();
  for (int fd : {epoll_, wake_, context.async_fd, telling_}) close(fd);
}

void FakeDevice::Wake() {
  const uint64_t one = 1;
  (void)!write(wake_, &one, sizeof one);
}

ibv_cq* FakeDevice::CreateQueue(ibv_comp_channel* channel, int entries) {
  auto queue = std::make_unique<FakeCompletionQueue>(&context, channel, entries, number_);
  ibv_cq* const cq = &queue->cq;
  queues_[cq] = std::move(queue);
  ++fake_ibverbs.live_objects;
  return cq;
}

int FakeDevice::DestroyQueue(ibv_cq* cq) {
  const auto found = queues_.find(cq);
  if (found == queues_.end() || found->second->users > 0) {
    FakeMisuse("a completion queue was destroyed that queue pairs use");
    return EBUSY;
  }
  // A real one waits, for ever.
  if (found->second->told != found->second->acknowledged) FakeMisuse("events of a completion queue not acknowledged");
  queues_.erase(found);
  --fake_ibverbs.live_objects;
  return 0;
}

ibv_qp* FakeDevice::CreatePair(ibv_pd* pd, const ibv_qp_init_attr& attributes) {
  auto pair = std::make_unique<FakeQueuePair>(pd, attributes, number_, &memory_);
  if (pair->fd() < 0) {
    errno = ENOMEM;
    return nullptr;
  }
  for (ibv_cq* cq : {attributes.send_cq, attributes.recv_cq}) ++queues_.at(cq)->users;
  epoll_event event{};
  event.data.u32 = pair->qp.qp_num;
  epoll_ctl(epoll_, EPOLL_CTL_ADD, pair->fd(), &event);
  ibv_qp* const qp = &pair->qp;
  pairs_[qp->qp_num].pair = std::move(pair);
  ++fake_ibverbs.live_objects;
  return qp;
}

int FakeDevice::DestroyPair(ibv_qp* qp) {
  for (ibv_cq* cq : {qp->send_cq, qp->recv_cq}) --queues_.at(cq)->users;
  pairs_.erase(qp->qp_num);
  --fake_ibverbs.live_objects;
  return 0;
}

bool FakeDevice::UsesDomain(ibv_pd* pd) const {
  return memory_.UsedBy(pd) ||
         std::any_of(pairs_.begin(), pairs_.end(), [pd](const auto& entry) { return entry.second.pair->qp.pd == pd; });
}

bool FakeDevice::UsesMemory(uint32_t key) const {
  return std::any_of(pairs_.begin(), pairs_.end(), [key](const auto& entry) { return entry.second.pair->Uses(key); });
}

bool FakeDevice::TakeRemoval() { return removed_ && !std::exchange(removal_told_, true); }

void FakeDevice::Run() {
  for (;;) {
    int64_t next_us;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (stopped_) return;
      Turn();
      next_us = DeliverAll(FakeNowUs());
    }
    epoll_event events[16];
    int wait_ms = kTickMs;
    if (next_us >= 0) wait_ms = static_cast<int>(std::min<int64_t>(kTickMs, (next_us - FakeNowUs()) / 1000));
    const int n = epoll_wait(epoll_, events, 16, std::max(wait_ms, 0));
    for (int i = 0; i < n; ++i) {
      uint64_t count;
      if (events[i].data.u32 == UINT32_MAX) (void)!read(wake_, &count, sizeof count);
    }
  }
}

void FakeDevice::Turn() {
  if (fake_ibverbs.removed[number_]) NoteRemoval();
  if (removed_) return;
  const int64_t now_us = FakeNowUs();
  for (auto& [number, entry] : pairs_) {
    FakeQueuePair& pair = *entry.pair;
    pair.Work(now_us);
    const bool reads = pair.Reads() && !pair.stalled() && !fake_ibverbs.deaf[number_];
    const uint32_t wanted = (reads ? EPOLLIN : 0u) | (pair.full() ? EPOLLOUT : 0u);
    if (wanted == entry.events) continue;
    entry.events = wanted;
    epoll_event event{};
    event.events = wanted;
    event.data.u32 = number;
    epoll_ctl(epoll_, EPOLL_CTL_MOD, pair.fd(), &event);
  }
}

int64_t FakeDevice::DeliverAll(int64_t now_us) {
  if (removed_) return -1;
  int64_t next_us = -1;
  for (auto& [cq, queue] : queues_) {
    bool ok = true;
    const int64_t due_us = queue->Deliver(now_us, &ok);
    if (!ok) {
      for (auto& [number, entry] : pairs_) entry.pair->Break(IBV_WC_WR_FLUSH_ERR);
    }
    if (due_us >= 0 && (next_us < 0 || due_us < next_us)) next_us = due_us;
  }
  return next_us;
}

void FakeDevice::NoteRemoval() {
  if (std::exchange(removed_, true)) return;
  const uint64_t one = 1;
  (void)!write(telling_, &one, sizeof one);
  // As of a device that is no longer there.
  close(std::exchange(telling_, -1));
}

}  // namespace farandole::transport::verbs
