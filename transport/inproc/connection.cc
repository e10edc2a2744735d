#include "transport/inproc/connection.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"

namespace farandole::transport::inproc {
namespace {

// Copied before the lock is free for others.
constexpr size_t kPieceBytes = 256 << 10;

}  // namespace

InprocConnection::InprocConnection(EventLoop* loop0, EventLoop* loop1, const std::string& peer0,
                                   const std::string& peer1) {
  EventLoop* const loops[2] = {loop0, loop1};
  const std::string* const peers[2] = {&peer0, &peer1};
  absl::MutexLock lock(&mutex_);
  for (int end : {0, 1}) {
    ends_[end].loop = loops[end];
    ends_[end].peer = *peers[end];
    // Leave() stops the timer before this object goes.
    ends_[end].deadlines =
        std::make_shared<DeadlineTimer>(loops[end], [this, end](TimePoint now) { return ExpireFromLoop(end, now); });
  }
}

void InprocConnection::Send(int end, Tag tag, Block block, TimePoint deadline, Channel::Done done) {
  const absl::Status checked = CheckBlock(block);
  if (!checked.ok()) block = Block();
  absl::MutexLock lock(&mutex_);
  Post(end, &ends_[end].sends, 1 - end, checked, MakeOperation(tag, block, deadline, std::move(done)));
}

void InprocConnection::Receive(int end, Tag tag, Block block, TimePoint deadline, Channel::Done done) {
  const absl::Status checked = CheckBlock(block);
  if (!checked.ok()) block = Block();
  absl::MutexLock lock(&mutex_);
  Post(end, &ends_[end].receives, end, checked, MakeOperation(tag, block, deadline, std::move(done)));
}

void InprocConnection::Post(int end, std::deque<Operation>* queue, int receiver, const absl::Status& checked,
                            Operation operation) {
  if (!checked.ok()) {
    FailLocked(end, checked);
    FailLocked(1 - end, absl::UnavailableError(absl::StrCat("channel to ", ends_[1 - end].peer, ": the peer failed")));
  }
  absl::Status refused = ends_[end].failure;
  if (refused.ok() && operation.tag < ends_[end].discard_below) refused = Discarded(operation.tag);
  if (!refused.ok()) {
    std::vector<Completion> failed;
    failed.push_back({std::move(operation.done), std::move(refused)});
    return CompleteLocked(end, std::move(failed));
  }
  const TimePoint deadline = operation.deadline;
  queue->push_back(std::move(operation));
  PostCopyLocked(receiver);
  ends_[end].deadlines->Watch(deadline);
}

void InprocConnection::Discard(int end, Tag below) {
  absl::MutexLock lock(&mutex_);
  End& own = ends_[end];
  if (!(own.discard_below < below)) return;
  own.discard_below = below;
  std::vector<Completion> discarded;
  if (!own.sends.empty() && own.sends.front().tag < below) own.copied = 0;
  DiscardBelow(below, &own.sends, &discarded);
  DiscardBelow(below, &own.receives, &discarded);
  CompleteLocked(end, std::move(discarded));
  // What stood behind the discarded ones can move.
  PostCopyLocked(end);
  PostCopyLocked(1 - end);
}

void InprocConnection::Close(int end, absl::Status reason) {
  absl::MutexLock lock(&mutex_);
  if (reason.ok()) {
    reason = absl::CancelledError(absl::StrCat("the channel to ", ends_[end].peer, " was closed on this end"));
  }
  FailLocked(end, reason);
  FailLocked(1 - end, absl::UnavailableError(
                          absl::StrCat("channel to ", ends_[1 - end].peer, ": the peer closed the connection")));
}

void InprocConnection::Leave(int end) {
  Close(end, absl::OkStatus());
  EventLoop* loop;
  std::shared_ptr<DeadlineTimer> deadlines;
  {
    absl::MutexLock lock(&mutex_);
    loop = std::exchange(ends_[end].loop, nullptr);
    deadlines = ends_[end].deadlines;
  }
  if (loop->InLoop()) return deadlines->StopFromLoop();
  absl::Notification finished;
  loop->Post([&] {
    deadlines->StopFromLoop();
    finished.Notify();
  });
  finished.WaitForNotification();
}

void InprocConnection::PostCopyLocked(int receiver) {
  End& end = ends_[receiver];
  if (end.loop == nullptr || std::exchange(end.copy_posted, true)) return;
  end.loop->Post([self = shared_from_this(), receiver] { self->CopyFromLoop(receiver); });
}

void InprocConnection::CopyFromLoop(int receiver) {
  absl::MutexLock lock(&mutex_);
  End& to = ends_[receiver];
  End& from = ends_[1 - receiver];
  to.copy_posted = false;
  if (from.sends.empty() || !to.failure.ok()) return;
  Operation& send = from.sends.front();
  if (send.tag < to.discard_below) {
    std::vector<Completion> dropped;
    dropped.push_back({std::move(send.done), absl::OkStatus()});
    from.sends.pop_front();
    from.copied = 0;
    CompleteLocked(1 - receiver, std::move(dropped));
    return PostCopyLocked(receiver);
  }
  auto receive = std::find_if(to.receives.begin(), to.receives.end(),
                              [&send](const Operation& posted) { return posted.tag == send.tag; });
  if (receive == to.receives.end()) return;
  if (receive->bytes != send.bytes) {
    FailLocked(receiver, absl::InvalidArgumentError(absl::StrCat("channel to ", to.peer, ": the peer sent ", send.bytes,
                                                                 " bytes with tag ", ToString(send.tag),
                                                                 ", the receive expects ", receive->bytes)));
    FailLocked(1 - receiver,
               absl::UnavailableError(absl::StrCat("channel to ", from.peer, ": the peer closed the connection")));
    return;
  }
  const size_t piece = std::min(send.bytes - from.copied, kPieceBytes);
  if (piece > 0) std::memcpy(receive->data + from.copied, send.data + from.copied, piece);
  from.copied += piece;
  if (from.copied == send.bytes) {
    std::vector<Completion> sent, received;
    sent.push_back({std::move(send.done), absl::OkStatus()});
    received.push_back({std::move(receive->done), absl::OkStatus()});
    to.receives.erase(receive);
    from.sends.pop_front();
    from.copied = 0;
    CompleteLocked(1 - receiver, std::move(sent));
    CompleteLocked(receiver, std::move(received));
  }
  PostCopyLocked(receiver);
}

void InprocConnection::FailLocked(int end, const absl::Status& status) {
  End& failed = ends_[end];
  if (!failed.failure.ok()) return;
  failed.failure = status;
  std::vector<Completion> completions;
  FailAll(&failed.sends, status, &completions);
  FailAll(&failed.receives, status, &completions);
  CompleteLocked(end, std::move(completions));
}

void InprocConnection::CompleteLocked(int end, std::vector<Completion> completions) {
  if (completions.empty() || ends_[end].loop == nullptr) return;
  ends_[end].loop->Post([completions = std::move(completions)] {
    for (const Completion& completion : completions) completion.done(completion.status);
  });
}

TimePoint InprocConnection::ExpireFromLoop(int end, TimePoint now) {
  absl::MutexLock lock(&mutex_);
  const TimePoint sends = EarliestDeadline(ends_[end].sends);
  const TimePoint receives = EarliestDeadline(ends_[end].receives);
  const TimePoint earliest = sends < receives ? sends : receives;
  if (now < earliest) return earliest;
  FailLocked(end, absl::DeadlineExceededError(absl::StrCat(
                      "channel to ", ends_[end].peer, ": the peer did not send or take data before the deadline")));
  FailLocked(1 - end, absl::UnavailableError(
                          absl::StrCat("channel to ", ends_[1 - end].peer, ": the peer closed the connection")));
  return TimePoint::Infinite();
}

}  // namespace farandole::transport::inproc
