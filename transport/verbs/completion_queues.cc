#include "transport/verbs/completion_queues.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole::transport::verbs {
namespace {

// Acknowledging takes a lock; it is done for so many events at a time.
constexpr unsigned kEventsPerAck = 64;

}  // namespace

CompletionQueues::CompletionQueues(std::shared_ptr<const VerbsLibrary> library, ibv_context* context,
                                   ibv_comp_channel* channel, int entries)
    : library_(std::move(library)), context_(context), channel_(channel), entries_(entries) {}

CompletionQueues::~CompletionQueues() {
  for (Queue& queue : queues_) {
    // What was not taken must be taken and acknowledged, or destroying the queue would wait for it.
    TakeEvents();
    if (queue.events > 0) library_->api().ack_cq_events(queue.cq, queue.events);
    library_->api().destroy_cq(queue.cq);
  }
}

absl::StatusOr<ibv_cq*> CompletionQueues::Reserve(int entries) {
  for (Queue& queue : queues_) {
    if (queue.free < entries) continue;
    queue.free -= entries;
    return queue.cq;
  }
  if (entries > entries_) {
    return absl::UnavailableError(absl::StrCat("a channel can have ", entries, " completions at a time, a queue of ",
                                               "this device holds ", entries_, "; use fewer queue pairs"));
  }
  ibv_cq* const cq = library_->api().create_cq(context_, entries_, nullptr, channel_, 0);
  if (cq == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("the device gives no completion queue of ", entries_, " entries: ", std::strerror(errno)));
  }
  queues_.push_back({cq, entries_ - entries, false, 0});
  return cq;
}

void CompletionQueues::Release(ibv_cq* cq, int entries) {
  for (Queue& queue : queues_) {
    if (queue.cq == cq) queue.free += entries;
  }
}

int CompletionQueues::Poll(ibv_wc* completions, int most) {
  int taken = 0;
  for (size_t i = 0; i < queues_.size() && taken < most; ++i) {
    Queue& queue = queues_[next_++ % queues_.size()];
    const int n = ibv_poll_cq(queue.cq, most - taken, completions + taken);
    if (n < 0) return n;
    taken += n;
  }
  return taken;
}

void CompletionQueues::Arm() {
  for (Queue& queue : queues_) {
    if (!queue.armed) queue.armed = ibv_req_notify_cq(queue.cq, 0) == 0;
  }
}

void CompletionQueues::TakeEvents() {
  ibv_cq* cq = nullptr;
  void* unused = nullptr;
  // The channel's descriptor does not block.
  while (library_->api().get_cq_event(channel_, &cq, &unused) == 0) {
    for (Queue& queue : queues_) {
      if (queue.cq != cq) continue;
      queue.armed = false;
      if (++queue.events < kEventsPerAck) continue;
      library_->api().ack_cq_events(cq, queue.events);
      queue.events = 0;
    }
  }
}

}  // namespace farandole::transport::verbs
