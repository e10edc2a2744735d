#include "transport/tcp/connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole::transport::tcp {
namespace {

// What a posting thread moves itself before it leaves the rest to the loop.
constexpr size_t kInlineBytes = 64 << 10;
// What the loop moves for one connection and direction before it looks at others.
constexpr size_t kTurnBytes = 1 << 20;
// The peer is gone, frames without a receive stand in the way of operations that wait: the missing receives may still
// be posted within this time.
constexpr int64_t kMissingReceiveMs = 500;

}  // namespace

Connection::Connection(EventLoop* loop, PrivateFd socket, std::string peer)
    : loop_(loop),
      peer_(std::move(peer)),
      deadlines_(std::make_shared<DeadlineTimer>(loop, [this](TimePoint now) { return ExpireFromLoop(now); })),
      socket_(std::move(socket)) {}

void Connection::StartFromLoop() {
  loop_->AddFdFromLoop(socket_.get(), EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                       [self = shared_from_this()](uint32_t events) { self->HandleEventsFromLoop(events); });
}

void Connection::FinishFromLoop() {
  Close(absl::OkStatus());
  deadlines_->StopFromLoop();
  CloseSocketFromLoop();
  RunCompletedFromLoop();
}

void Connection::Close(absl::Status reason) {
  Fail(reason.ok() ? absl::CancelledError(absl::StrCat("the channel to ", peer_, " was closed on this end"))
                   : std::move(reason));
}

absl::Status Connection::Broken(const absl::Status& status) const {
  return absl::Status(status.code(), absl::StrCat("channel to ", peer_, ": ", status.message()));
}

void Connection::Send(Tag tag, Block block, TimePoint deadline, Channel::Done done) {
  absl::Status status = CheckBlock(block);
  if (!status.ok()) Fail(Broken(status));
  bool write = false;
  {
    absl::MutexLock lock(&send_mutex_);
    status = failure();
    if (status.ok() && tag < sends_.discard_below()) status = Discarded(tag);
    if (status.ok()) {
      write = sends_.empty();
      sends_.Push(MakeOperation(tag, block, deadline, std::move(done)));
    }
  }
  if (!status.ok()) {
    std::vector<Completion> failed;
    failed.push_back({std::move(done), std::move(status)});
    return Complete(std::move(failed));
  }
  if (write) WriteSome(kInlineBytes);
  deadlines_->Watch(deadline);
}

void Connection::Receive(Tag tag, Block block, TimePoint deadline, Channel::Done done) {
  absl::Status status = CheckBlock(block);
  if (!status.ok()) Fail(Broken(status));
  bool read = false;
  bool limit = false;
  {
    absl::MutexLock lock(&receive_mutex_);
    status = failure();
    if (status.ok() && tag < receives_.discard_below()) status = Discarded(tag);
    if (status.ok()) {
      const bool blocked = receives_.blocked();
      receives_.Push(MakeOperation(tag, block, deadline, std::move(done)));
      read = blocked && !receives_.blocked();
      limit = ending_ && !read;
    }
  }
  if (!status.ok()) {
    std::vector<Completion> failed;
    failed.push_back({std::move(done), std::move(status)});
    return Complete(std::move(failed));
  }
  if (read) ReadSome(kInlineBytes);
  if (limit && deadline != TimePoint::Infinite())
    loop_->Post([self = shared_from_this()] { self->LimitWaitFromLoop(); });
  deadlines_->Watch(deadline);
}

void Connection::Discard(Tag below) {
  std::vector<Completion> discarded;
  {
    absl::MutexLock lock(&send_mutex_);
    sends_.Discard(below, &discarded);
  }
  bool read;
  {
    absl::MutexLock lock(&receive_mutex_);
    const bool blocked = receives_.blocked();
    receives_.Discard(below, &discarded);
    read = blocked && !receives_.blocked();
  }
  Complete(std::move(discarded));
  if (read) ReadSome(kInlineBytes);
}

void Connection::HandleEventsFromLoop(uint32_t events) {
  {
    // What completes in here runs at the end of it; nothing has to be posted.
    absl::MutexLock lock(&state_mutex_);
    run_posted_ = true;
  }
  const bool ending = (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
  if (ending) {
    absl::MutexLock lock(&receive_mutex_);
    ending_ = true;
  }
  if (ending || (events & EPOLLIN) != 0) ReadSome(kTurnBytes);
  if ((events & EPOLLOUT) != 0) WriteSome(kTurnBytes);
  if (ending) LimitWaitFromLoop();
  RunCompletedFromLoop();
}

void Connection::WriteSome(size_t budget) {
  std::vector<Completion> completed;
  absl::StatusOr<IoProgress> progress = IoProgress::kIdle;
  {
    absl::MutexLock lock(&send_mutex_);
    // Nothing is pending after a failure, and the socket may be closed.
    if (!sends_.empty()) progress = sends_.Write(socket_.get(), budget, &completed);
  }
  Complete(std::move(completed));
  if (!progress.ok()) {
    // What the peer said before it closed may say why.
    {
      absl::MutexLock lock(&receive_mutex_);
      ending_ = true;
    }
    ReadSome(kTurnBytes);
    return Fail(Broken(progress.status()));
  }
  if (*progress == IoProgress::kBudget) {
    loop_->Post([self = shared_from_this()] { self->WriteSome(kTurnBytes); });
  }
}

void Connection::ReadSome(size_t budget) {
  std::vector<Completion> completed;
  absl::StatusOr<IoProgress> progress = IoProgress::kIdle;
  {
    absl::MutexLock lock(&receive_mutex_);
    if (failure().ok()) progress = receives_.Read(socket_.get(), budget, ending_, &completed);
  }
  Complete(std::move(completed));
  if (!progress.ok()) return Fail(Broken(progress.status()));
  if (*progress == IoProgress::kBudget) {
    loop_->Post([self = shared_from_this()] { self->ReadSome(kTurnBytes); });
  }
}

void Connection::Fail(absl::Status status) {
  {
    absl::MutexLock lock(&state_mutex_);
    if (!failure_.ok()) return;
    failure_ = status;
  }
  std::vector<Completion> failed;
  {
    absl::MutexLock lock(&send_mutex_);
    sends_.Fail(status, &failed);
  }
  {
    absl::MutexLock lock(&receive_mutex_);
    receives_.Fail(status, &failed);
    // At once and for all holders of the connection, also copies in forked children.
    shutdown(socket_.get(), SHUT_RDWR);
  }
  Complete(std::move(failed));
  loop_->Post([self = shared_from_this()] { self->CloseSocketFromLoop(); });
}

absl::Status Connection::failure() {
  absl::MutexLock lock(&state_mutex_);
  return failure_;
}

void Connection::Complete(std::vector<Completion> completions) {
  if (completions.empty()) return;
  bool post;
  {
    absl::MutexLock lock(&state_mutex_);
    for (Completion& completion : completions) completed_.push_back(std::move(completion));
    post = !std::exchange(run_posted_, true);
  }
  if (post) loop_->Post([self = shared_from_this()] { self->RunCompletedFromLoop(); });
}

void Connection::RunCompletedFromLoop() {
  std::vector<Completion> batch;
  {
    absl::MutexLock lock(&state_mutex_);
    batch.swap(completed_);
    run_posted_ = false;
  }
  for (Completion& completion : batch) completion.done(completion.status);
}

void Connection::CloseSocketFromLoop() {
  if (!socket_.valid()) return;
  loop_->CancelTimerFromLoop(wait_limit_);
  loop_->RemoveFdFromLoop(socket_.get());
  socket_.Reset();
}

TimePoint Connection::ExpireFromLoop(TimePoint now) {
  TimePoint earliest;
  {
    absl::MutexLock lock(&send_mutex_);
    earliest = sends_.EarliestDeadline();
  }
  {
    absl::MutexLock lock(&receive_mutex_);
    const TimePoint receive = receives_.EarliestDeadline();
    if (receive < earliest) earliest = receive;
  }
  if (now < earliest) return earliest;
  Fail(Broken(absl::DeadlineExceededError("the peer did not send or take data before the deadline")));
  return TimePoint::Infinite();
}

// The stream has ended but a frame without a receive stands before its end. Frames may still be fetched; who waits for
// something else gets an error in bounded time.
void Connection::LimitWaitFromLoop() {
  if (wait_limit_ != 0 || !socket_.valid() || !Waiting()) return;
  wait_limit_ = loop_->AddTimerFromLoop(loop_->Now().PlusMs(kMissingReceiveMs), [self = shared_from_this()] {
    self->wait_limit_ = 0;
    if (self->Waiting()) self->Fail(self->Broken(absl::UnavailableError("the peer closed the connection")));
  });
}

bool Connection::Waiting() {
  {
    absl::MutexLock lock(&send_mutex_);
    if (sends_.EarliestDeadline() != TimePoint::Infinite()) return true;
  }
  absl::MutexLock lock(&receive_mutex_);
  return receives_.EarliestDeadline() != TimePoint::Infinite();
}

}  // namespace farandole::transport::tcp
