#ifndef FARANDOLE_TRANSPORT_TCP_CONNECTION_H_
#define FARANDOLE_TRANSPORT_TCP_CONNECTION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/event_loop.h"
#include "base/private_fd.h"
#include "transport/deadline_timer.h"
#include "transport/operation.h"
#include "transport/tcp/receive_queue.h"
#include "transport/tcp/send_queue.h"

namespace farandole::transport::tcp {

// An authenticated socket between two ends: where state, errors and I/O meet.
//
// Sending and receiving are two halves with a lock each, so that both directions make progress at once. A thread that
// posts to an idle half writes (or reads, if the frame is there already) a first piece itself; the loop does the rest.
// The socket is registered edge-triggered, once: nobody changes what the loop listens for.
//
//   OPEN --first error, deadline, Close--> FAILED --FinishFromLoop--> FINISHED
//
// The first failure is kept in `failure_` and everything pending ends with it, wherever it was seen. Completions are
// collected under `state_mutex_` and run by the loop, without any lock. Lock order: either half, then `state_mutex_`;
// never both halves.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `peer` names the other end in error texts.
  Connection(EventLoop* loop, PrivateFd socket, std::string peer);

  void StartFromLoop();
  // Fails what is left with CANCELLED, runs every completion, leaves the loop.
  void FinishFromLoop();

  void Send(Tag tag, Block block, TimePoint deadline, Channel::Done done);
  void Receive(Tag tag, Block block, TimePoint deadline, Channel::Done done);
  void Discard(Tag below);
  void Close(absl::Status reason);

 private:
  void HandleEventsFromLoop(uint32_t events);
  // Do as much as the budget allows; the rest is posted to the loop.
  void WriteSome(size_t budget);
  void ReadSome(size_t budget);
  // Any thread, without locks.
  void Fail(absl::Status status);
  // The same with the peer's name.
  absl::Status Broken(const absl::Status& status) const;
  absl::Status failure() ABSL_LOCKS_EXCLUDED(state_mutex_);
  // Hands completions over to the loop.
  void Complete(std::vector<Completion> completions);
  void RunCompletedFromLoop();
  void CloseSocketFromLoop();
  TimePoint ExpireFromLoop(TimePoint now);
  void LimitWaitFromLoop();
  // True if something has been posted that will not wait for ever.
  bool Waiting();

  EventLoop* const loop_;
  const std::string peer_;
  const std::shared_ptr<DeadlineTimer> deadlines_;
  // Closed on the loop after a failure, when neither half uses it any more.
  PrivateFd socket_;

  absl::Mutex send_mutex_;
  SendQueue sends_ ABSL_GUARDED_BY(send_mutex_);
  absl::Mutex receive_mutex_;
  ReceiveQueue receives_ ABSL_GUARDED_BY(receive_mutex_);
  // The kernel has announced the end of the stream: what is still in the socket is read, then comes the failure.
  bool ending_ ABSL_GUARDED_BY(receive_mutex_) = false;

  absl::Mutex state_mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(state_mutex_);
  std::vector<Completion> completed_ ABSL_GUARDED_BY(state_mutex_);
  // A run of `completed_` is posted to the loop.
  bool run_posted_ ABSL_GUARDED_BY(state_mutex_) = false;

  // Loop only.
  EventLoop::TimerId wait_limit_ = 0;
};

}  // namespace farandole::transport::tcp

#endif  // FARANDOLE_TRANSPORT_TCP_CONNECTION_H_
