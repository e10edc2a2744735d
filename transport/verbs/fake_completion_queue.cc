#include "transport/verbs/fake_completion_queue.h"

#include <unistd.h>

#include <algorithm>

#include "transport/verbs/fake_ibverbs.h"
#include "transport/verbs/fake_state.h"

namespace farandole::transport::verbs {

FakeCompletionQueue::FakeCompletionQueue(ibv_context* context, ibv_comp_channel* channel, int entries, int device)
    : device_(device), random_(static_cast<unsigned>(FakeNowUs())) {
  cq.context = context;
  cq.channel = channel;
  cq.cqe = entries;
}

void FakeCompletionQueue::Add(const ibv_wc& completion) {
  const int delay_us = fake_ibverbs.delay_us;
  int64_t due_us = FakeNowUs();
  if (delay_us > 0) due_us += static_cast<int64_t>(random_() % static_cast<unsigned>(delay_us));
  if (!coming_.empty()) due_us = std::max(due_us, coming_.back().due_us);
  coming_.push_back({due_us, completion});
}

int64_t FakeCompletionQueue::Deliver(int64_t now_us, bool* ok) {
  if (fake_ibverbs.hold[device_]) return -1;
  while (!coming_.empty() && coming_.front().due_us <= now_us) {
    if (static_cast<int>(there_.size()) >= cq.cqe) {
      ++fake_ibverbs.overruns;
      *ok = false;
      coming_.clear();
      return -1;
    }
    there_.push_back(coming_.front().completion);
    coming_.pop_front();
    ++fake_ibverbs.completions;
    Tell();
  }
  return coming_.empty() ? -1 : coming_.front().due_us;
}

void FakeCompletionQueue::Tell() {
  if (!armed_ || cq.channel == nullptr) return;
  armed_ = false;
  ++told;
  reinterpret_cast<FakeCompletionChannel*>(cq.channel)->events.push_back(&cq);
  const uint64_t one = 1;
  (void)!write(cq.channel->fd, &one, sizeof one);
}

int FakeCompletionQueue::Poll(int most, ibv_wc* completions) {
  int count = 0;
  for (; count < most && !there_.empty(); ++count) {
    completions[count] = there_.front();
    there_.pop_front();
  }
  return count;
}

}  // namespace farandole::transport::verbs
