#ifndef FARANDOLE_TRANSPORT_VERBS_FAKE_COMPLETION_QUEUE_H_
#define FARANDOLE_TRANSPORT_VERBS_FAKE_COMPLETION_QUEUE_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <deque>
#include <random>

namespace farandole::transport::verbs {

// Where completion queues tell of what they have got. Under the device's lock.
struct FakeCompletionChannel {
  ibv_comp_channel channel{};  // first: its address is this object's
  std::deque<ibv_cq*> events;
};

// A completion queue of a fake device. Under the device's lock.
class FakeCompletionQueue {
 public:
  FakeCompletionQueue(ibv_context* context, ibv_comp_channel* channel, int entries, int device);

  // First: its address is this object's.
  ibv_cq cq{};

  // A completion that comes, after the delay.
  void Add(const ibv_wc& completion);
  // Moves what is due to where it can be polled, and returns when the next is; -1: none. False in `ok`: it is full.
  int64_t Deliver(int64_t now_us, bool* ok);
  int Poll(int most, ibv_wc* completions);
  void Arm() { armed_ = true; }

  int users = 0;      // queue pairs
  unsigned told = 0;  // events
  unsigned acknowledged = 0;

 private:
  struct Coming {
    int64_t due_us;
    ibv_wc completion;
  };
  void Tell();

  const int device_;
  std::deque<Coming> coming_;
  std::deque<ibv_wc> there_;
  bool armed_ = false;
  std::minstd_rand random_;
};

}  // namespace farandole::transport::verbs

#endif  // FARANDOLE_TRANSPORT_VERBS_FAKE_COMPLETION_QUEUE_H_
