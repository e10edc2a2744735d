#ifndef FARANDOLE_TRANSPORT_INPROC_CONNECTION_H_
#define FARANDOLE_TRANSPORT_INPROC_CONNECTION_H_

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/event_loop.h"
#include "transport/deadline_timer.h"
#include "transport/operation.h"

namespace farandole::transport::inproc {

// What lies between two channels of one process. Nothing is buffered: bytes go from the sender's memory to the
// receiver's when both have been posted, so a send is done no sooner than its receive. It is the strictest medium that
// the contract of channels allows.
//
// Copies are made on the receiver's loop in pieces, under the lock, so that an operation that fails is never touched
// afterwards.
class InprocConnection : public std::enable_shared_from_this<InprocConnection> {
 public:
  // End 0 connects, end 1 accepts. `peers[i]` names the other end in error texts of end i.
  InprocConnection(EventLoop* loop0, EventLoop* loop1, const std::string& peer0, const std::string& peer1);

  void Send(int end, Tag tag, Block block, TimePoint deadline, Channel::Done done);
  void Receive(int end, Tag tag, Block block, TimePoint deadline, Channel::Done done);
  void Discard(int end, Tag below);
  // This end fails with `reason`, the other one with UNAVAILABLE.
  void Close(int end, absl::Status reason);
  // Closes, and returns after the last `done` of this end has run. On the loop's thread only if nothing was posted.
  void Leave(int end);

 private:
  struct End {
    EventLoop* loop;  // null once it has left
    std::string peer;
    std::shared_ptr<DeadlineTimer> deadlines;
    std::deque<Operation> sends;
    std::deque<Operation> receives;
    // Bytes of the front send that are copied.
    size_t copied = 0;
    Tag discard_below;
    bool copy_posted = false;
    absl::Status failure;
  };

  // Looks, on the receiver's loop, whether the other end's front send can move.
  void PostCopyLocked(int receiver) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CopyFromLoop(int receiver);
  void FailLocked(int end, const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Has `done` called on the end's loop.
  void CompleteLocked(int end, std::vector<Completion> completions) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  TimePoint ExpireFromLoop(int end, TimePoint now);
  void Post(int end, std::deque<Operation>* queue, int receiver, const absl::Status& checked, Operation operation)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  End ends_[2] ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole::transport::inproc

#endif  // FARANDOLE_TRANSPORT_INPROC_CONNECTION_H_
