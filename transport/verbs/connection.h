#ifndef FARANDOLE_TRANSPORT_VERBS_CONNECTION_H_
#define FARANDOLE_TRANSPORT_VERBS_CONNECTION_H_

#include <infiniband/verbs.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/types/optional.h"
#include "base/event_loop.h"
#include "base/private_fd.h"
#include "transport/deadline_timer.h"
#include "transport/operation.h"
#include "transport/verbs/lifeline.h"
#include "transport/verbs/link.h"
#include "transport/verbs/receive_side.h"
#include "transport/verbs/send_side.h"

namespace farandole::transport::verbs {

// The queue pairs and the socket between two ends: where state, errors and I/O meet. What is posted by any thread is
// queued; the loop takes it, in the posting thread if the loop is idle. All other state is the loop's.
//
//   OPEN --the peer closed or died, a completion is an error--> ENDED --what came before has been fetched--> FAILED
//   OPEN --Close, deadline, a peer that breaks the rules--> FAILED
//   FAILED --the peer has got what was sent, if this end is well--> BROKEN --all work is flushed--> FINISHED
//
// The first failure is kept and everything pending ends with it. But memory that the device may still read or write,
// for a large send that was posted or a large receive that was offered, is not given back in FAILED: the queue pairs
// are put into error, their work is flushed, they are destroyed, and then these operations end. A device that does not
// flush has kFlushMs; then destroying the queue pairs, which is the kernel's, ends its access. Both waits have a bound.
class Connection : public std::enable_shared_from_this<Connection>, private LinkEvents {
 public:
  struct Shape {
    EventLoop* loop = nullptr;
    // Names the other end in error texts.
    std::string peer;
    PrivateFd socket;
    std::unique_ptr<Link> link;
    size_t eager_bytes = 0;
    int64_t recall_ms = 0;
    // On the loop, as the last thing, when the owner has let go.
    std::function<void()> finished;
  };
  explicit Connection(Shape shape);

  void StartFromLoop();

  // Any thread.
  void Send(Tag tag, Block block, TimePoint deadline, Channel::Done done);
  void Receive(Tag tag, Block block, TimePoint deadline, Channel::Done done);
  void Discard(Tag below);
  void Close(absl::Status reason);
  // The owner lets go: as Close with OK, and tells when the last completion has run, unless that is null.
  void LetGo(std::shared_ptr<absl::Notification> over);

  // A completion of this connection's work. What it ends is told by RunCompletedFromLoop, which the caller calls next.
  void HandleFromLoop(const ibv_wc& completion);
  // Sends what has become possible by completions.
  void AfterCompletionsFromLoop();
  // The device is gone, or the transport.
  void FailFromLoop(absl::Status status);

 private:
  enum class State { kOpen, kEnded, kFailed, kBroken, kFinished };
  struct Request {
    enum class Kind { kSend, kReceive, kDiscard, kClose, kLetGo } kind;
    Operation operation;
    const Memory* memory = nullptr;
    absl::Status status;
    std::shared_ptr<absl::Notification> over;
  };

  // LinkEvents:
  absl::Status MessageCame(const MessageHeader& header, const char* payload, uint16_t slot) override;
  absl::Status WriteCame(uint32_t mark) override;
  void WriteEnded(uint64_t cookie) override;

  void PostOperation(Request::Kind kind, Tag tag, Block block, TimePoint deadline, Channel::Done done);
  void Put(Request request);
  void TakeRequestsFromLoop();
  void Take(Request request);
  void TakeOperation(Request request);
  void TakeDiscard(Tag below);
  void Pump();
  // The same with the peer's name.
  absl::Status Broken(const absl::Status& status) const;
  // Fails with what breaks the rules, ends with what is the network's.
  void Check(const absl::Status& status);
  void PeerClosed(const absl::optional<Goodbye>& goodbye, const absl::Status& why);
  void End(const absl::Status& status);
  // In ENDED: fails unless something can be fetched still.
  void CheckEnded();
  void GatherFor(int64_t ms);
  void LimitWait();
  void Fail(absl::Status status, bool settle);
  void Break();
  void Finish();
  TimePoint ExpireFromLoop(TimePoint now);
  bool Waiting() const;
  void Complete(std::vector<Completion> completions);
  void RunCompletedFromLoop();
  void ScheduleRun();
  EventLoop::TimerId Later(int64_t ms, std::function<void()> what);

  EventLoop* const loop_;
  const std::string peer_;
  const size_t eager_bytes_;
  const std::shared_ptr<DeadlineTimer> deadlines_;

  absl::Mutex mutex_;
  std::vector<Request> requests_ ABSL_GUARDED_BY(mutex_);

  // Loop only.
  std::function<void()> finished_;
  std::unique_ptr<Link> link_;
  Lifeline lifeline_;
  SendSide sends_;
  ReceiveSide receives_;
  State state_ = State::kOpen;
  absl::Status failure_;  // from ENDED on
  // When the peer has closed.
  absl::optional<Goodbye> goodbye_;
  EventLoop::TimerId gather_ = 0;
  EventLoop::TimerId wait_limit_ = 0;
  EventLoop::TimerId bound_ = 0;
  std::vector<Completion> completed_;
  bool run_posted_ = false;
  bool let_go_ = false;
  std::vector<std::shared_ptr<absl::Notification>> waiters_;
};

}  // namespace farandole::transport::verbs

#endif  // FARANDOLE_TRANSPORT_VERBS_CONNECTION_H_
