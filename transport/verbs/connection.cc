#include "transport/verbs/connection.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole::transport::verbs {
namespace {

// The peer is gone, frames without a receive stand in the way of operations that wait: the missing receives may still
// be posted within this time.
constexpr int64_t kMissingReceiveMs = 500;
// What a peer has sent before it said goodbye comes within this time.
constexpr int64_t kGatherMs = 500;
// A peer that has died had sent nothing that is not there: a few turns of the loop find it.
constexpr int64_t kDiedMs = 20;
// Work that failed may have done so because the peer has closed: then its goodbye comes.
constexpr int64_t kGoodbyeMs = 100;
// How long a closed end waits for the peer's device to have what was reported as sent.
constexpr int64_t kSettleMs = 1000;
// And for its own to flush its work.
constexpr int64_t kFlushMs = 2000;

}  // namespace

Connection::Connection(Shape shape)
    : loop_(shape.loop),
      peer_(std::move(shape.peer)),
      eager_bytes_(shape.eager_bytes),
      deadlines_(std::make_shared<DeadlineTimer>(loop_, [this](TimePoint now) { return ExpireFromLoop(now); })),
      finished_(std::move(shape.finished)),
      link_(std::move(shape.link)),
      lifeline_(loop_, std::move(shape.socket)),
      sends_(eager_bytes_),
      receives_(eager_bytes_, shape.recall_ms) {}

void Connection::StartFromLoop() {
  lifeline_.WatchFromLoop([self = shared_from_this()](absl::optional<Goodbye> goodbye, absl::Status why) {
    self->PeerClosed(goodbye, why);
  });
}

void Connection::Send(Tag tag, Block block, TimePoint deadline, Channel::Done done) {
  PostOperation(Request::Kind::kSend, tag, block, deadline, std::move(done));
}

void Connection::Receive(Tag tag, Block block, TimePoint deadline, Channel::Done done) {
  PostOperation(Request::Kind::kReceive, tag, block, deadline, std::move(done));
}

void Connection::PostOperation(Request::Kind kind, Tag tag, Block block, TimePoint deadline, Channel::Done done) {
  Request request{kind, {}, block.memory, CheckBlock(block), nullptr};
  if (!request.status.ok()) block.bytes = 0;
  request.operation = MakeOperation(tag, block, deadline, std::move(done));
  Put(std::move(request));
  deadlines_->Watch(deadline);
}

void Connection::Discard(Tag below) {
  Operation bound;
  bound.tag = below;
  Put({Request::Kind::kDiscard, std::move(bound), nullptr, absl::OkStatus(), nullptr});
}

void Connection::Close(absl::Status reason) { Put({Request::Kind::kClose, {}, nullptr, std::move(reason), nullptr}); }

void Connection::LetGo(std::shared_ptr<absl::Notification> over) {
  Put({Request::Kind::kLetGo, {}, nullptr, absl::OkStatus(), std::move(over)});
}

void Connection::Put(Request request) {
  {
    absl::MutexLock lock(&mutex_);
    requests_.push_back(std::move(request));
    // Who put the first takes them all.
    if (requests_.size() > 1) return;
  }
  if (loop_->InLoop()) return TakeRequestsFromLoop();
  loop_->RunOrPost([self = shared_from_this()] { self->TakeRequestsFromLoop(); });
}

void Connection::TakeRequestsFromLoop() {
  std::vector<Request> requests;
  {
    absl::MutexLock lock(&mutex_);
    requests.swap(requests_);
  }
  for (Request& request : requests) Take(std::move(request));
  Pump();
}

void Connection::Take(Request request) {
  switch (request.kind) {
    case Request::Kind::kSend:
    case Request::Kind::kReceive:
      return TakeOperation(std::move(request));
    case Request::Kind::kDiscard:
      return TakeDiscard(request.operation.tag);
    case Request::Kind::kLetGo:
      let_go_ = true;
      if (request.over != nullptr) waiters_.push_back(std::move(request.over));
      ABSL_FALLTHROUGH_INTENDED;
    case Request::Kind::kClose:
      if (request.status.ok()) {
        request.status = absl::CancelledError(absl::StrCat("the channel to ", peer_, " was closed on this end"));
      }
      Fail(std::move(request.status), /*settle=*/true);
      if (let_go_) ScheduleRun();
  }
}

void Connection::TakeOperation(Request request) {
  Operation& operation = request.operation;
  const bool large = operation.bytes > eager_bytes_;
  // Only a Memory of this transport has keys.
  const auto* memory = large ? dynamic_cast<const VerbsMemory*>(request.memory) : nullptr;
  if (request.status.ok() && large && memory == nullptr) {
    request.status = absl::InvalidArgumentError("a block was posted whose memory is not registered with RDMA");
  }
  if (!request.status.ok()) Fail(Broken(request.status), /*settle=*/true);
  const bool sends = request.kind == Request::Kind::kSend;
  if (state_ >= State::kFailed) {
    Complete({{std::move(operation.done), failure_}});
  } else if (operation.tag < receives_.discard_below()) {
    Complete({{std::move(operation.done), Discarded(operation.tag)}});
  } else if (sends) {
    sends_.Push(std::move(operation), memory);
  } else {
    const absl::Status pushed = receives_.Push(std::move(operation), memory, link_.get());
    if (!pushed.ok()) Fail(Broken(pushed), /*settle=*/true);
  }
}

void Connection::TakeDiscard(Tag below) {
  if (state_ >= State::kFailed) return;
  std::vector<Completion> completed;
  sends_.Discard(below, &completed);
  const TimePoint recall = receives_.Discard(below, loop_->Now(), link_.get(), &completed);
  Complete(std::move(completed));
  deadlines_->Watch(recall);
}

void Connection::HandleFromLoop(const ibv_wc& completion) {
  // What completes in here runs at the end of it; nothing has to be posted.
  run_posted_ = true;
  if (state_ == State::kFinished) return;
  Check(link_->Handle(completion, this));
}

void Connection::AfterCompletionsFromLoop() {
  const std::shared_ptr<Connection> self = shared_from_this();
  Pump();
  if (state_ == State::kFailed && link_->settled()) Break();
  if (state_ == State::kBroken && link_->drained()) Finish();
  RunCompletedFromLoop();
}

absl::Status Connection::MessageCame(const MessageHeader& header, const char* payload, uint16_t slot) {
  if (state_ >= State::kFailed) return absl::OkStatus();
  std::vector<Completion> completed;
  absl::Status status;
  switch (header.kind) {
    case MessageKind::kFrame:
      status = receives_.FrameCame(header, payload, slot);
      break;
    case MessageKind::kReady: {
      Target target;
      std::memcpy(&target, payload, sizeof target);
      status = sends_.PeerIsReady(header, target);
      break;
    }
    case MessageKind::kAnnounce:
      status = receives_.Announced(header);
      break;
    case MessageKind::kCancel:
      if (sends_.PeerCancels(header.id)) {
        MessageHeader answer;
        answer.kind = MessageKind::kCancelled;
        answer.id = header.id;
        status = link_->SendAnswer(answer);
      }
      break;
    case MessageKind::kCancelled:
      status = receives_.CancelAnswered(header.id, &completed);
      break;
    case MessageKind::kDiscard:
      sends_.PeerDiscards(header.tag());
      break;
    default:
      status = absl::InvalidArgumentError("the peer sent a message that this release does not know");
  }
  Complete(std::move(completed));
  return status;
}

absl::Status Connection::WriteCame(uint32_t mark) {
  if (state_ >= State::kFailed) return absl::OkStatus();
  std::vector<Completion> completed;
  const absl::Status status = receives_.WriteCame(mark, link_->queue_pairs(), &completed);
  Complete(std::move(completed));
  return status;
}

void Connection::WriteEnded(uint64_t cookie) {
  std::vector<Completion> completed;
  sends_.WriteEnded(cookie, &completed);
  Complete(std::move(completed));
}

void Connection::Pump() {
  if (state_ >= State::kFailed) return;
  std::vector<Completion> completed;
  absl::Status status = receives_.Deliver(link_.get(), &completed);
  // Nobody is there to take anything any more.
  if (status.ok() && state_ == State::kOpen) status = sends_.Pump(link_.get(), &completed);
  Complete(std::move(completed));
  Check(status);
  CheckEnded();
}

absl::Status Connection::Broken(const absl::Status& status) const {
  return absl::Status(status.code(), absl::StrCat("channel to ", peer_, ": ", status.message()));
}

void Connection::Check(const absl::Status& status) {
  if (status.ok()) return;
  // The peer takes nothing any more: nothing to wait for.
  if (state_ == State::kFailed) return Break();
  if (absl::IsUnavailable(status)) return End(status);
  Fail(Broken(status), /*settle=*/true);
}

void Connection::PeerClosed(const absl::optional<Goodbye>& goodbye, const absl::Status& why) {
  goodbye_ = goodbye;
  if (state_ == State::kFailed) return Break();
  if (!absl::IsUnavailable(why)) return Fail(Broken(why), /*settle=*/false);
  End(why);
  if (state_ != State::kEnded) return;
  GatherFor(goodbye.has_value() ? kGatherMs : kDiedMs);
  CheckEnded();
}

void Connection::End(const absl::Status& status) {
  if (state_ != State::kOpen) return;
  state_ = State::kEnded;
  failure_ = Broken(status);
  GatherFor(kGoodbyeMs);
}

// What the peer has sent before is there, or about to be.
void Connection::GatherFor(int64_t ms) {
  loop_->CancelTimerFromLoop(gather_);
  gather_ = Later(ms, [this] {
    gather_ = 0;
    CheckEnded();
  });
}

void Connection::CheckEnded() {
  if (state_ != State::kEnded) return;
  if (receives_.blocked()) return LimitWait();
  const bool all =
      goodbye_.has_value() && link_->received() >= goodbye_->messages && link_->writes_came() >= goodbye_->writes;
  if (all || gather_ == 0) Fail(failure_, /*settle=*/false);
}

// A frame without a receive is there. It may still be fetched; who waits for something else gets an error in bounded
// time.
void Connection::LimitWait() {
  if (wait_limit_ != 0 || !Waiting()) return;
  wait_limit_ = Later(kMissingReceiveMs, [this] {
    wait_limit_ = 0;
    if (state_ == State::kEnded && Waiting()) Fail(failure_, /*settle=*/false);
  });
}

bool Connection::Waiting() const {
  return std::min(sends_.EarliestDeadline(), receives_.EarliestDeadline()) != TimePoint::Infinite();
}

void Connection::Fail(absl::Status status, bool settle) {
  if (state_ >= State::kFailed) return;
  settle = settle && state_ == State::kOpen;
  state_ = State::kFailed;
  failure_ = std::move(status);
  std::vector<Completion> failed;
  sends_.Fail(failure_, &failed);
  receives_.Fail(failure_, &failed);
  Complete(std::move(failed));
  loop_->CancelTimerFromLoop(wait_limit_);
  loop_->CancelTimerFromLoop(gather_);
  // What was reported as sent may not have left the device.
  if (!settle || !link_->Settle().ok()) return Break();
  bound_ = Later(kSettleMs, [this] { Break(); });
}

void Connection::Break() {
  if (state_ != State::kFailed) return;
  state_ = State::kBroken;
  loop_->CancelTimerFromLoop(bound_);
  lifeline_.SayGoodbyeFromLoop({link_->sent(), link_->writes_ended()});
  link_->Break();
  if (link_->drained() || !(sends_.holds() || receives_.holds())) return Finish();
  bound_ = Later(kFlushMs, [this] { Finish(); });
}

void Connection::Finish() {
  if (state_ != State::kBroken) return;
  state_ = State::kFinished;
  loop_->CancelTimerFromLoop(bound_);
  // The device is done with all memory when this returns.
  link_.reset();
  std::vector<Completion> failed;
  sends_.FailHeld(failure_, &failed);
  receives_.FailHeld(failure_, &failed);
  lifeline_.CloseFromLoop();
  Complete(std::move(failed));
  ScheduleRun();
}

TimePoint Connection::ExpireFromLoop(TimePoint now) {
  TakeRequestsFromLoop();
  if (state_ >= State::kFailed) return TimePoint::Infinite();
  const TimePoint deadline = std::min(sends_.EarliestDeadline(), receives_.EarliestDeadline());
  const TimePoint recall = receives_.EarliestRecall();
  if (deadline <= now) {
    Fail(Broken(absl::DeadlineExceededError("the peer did not send or take data before the deadline")),
         /*settle=*/true);
  } else if (recall <= now) {
    Fail(Broken(absl::UnavailableError("the peer did not give memory back that it was to write to")),
         /*settle=*/false);
  }
  return state_ >= State::kFailed ? TimePoint::Infinite() : std::min(deadline, recall);
}

void Connection::FailFromLoop(absl::Status status) { Fail(Broken(status), /*settle=*/false); }

void Connection::Complete(std::vector<Completion> completions) {
  if (completions.empty()) return;
  for (Completion& completion : completions) completed_.push_back(std::move(completion));
  ScheduleRun();
}

void Connection::ScheduleRun() {
  if (!std::exchange(run_posted_, true)) loop_->Post([self = shared_from_this()] { self->RunCompletedFromLoop(); });
}

void Connection::RunCompletedFromLoop() {
  run_posted_ = false;
  std::vector<Completion> batch;
  batch.swap(completed_);
  for (Completion& completion : batch) completion.done(completion.status);
  if (state_ != State::kFinished || !let_go_ || !completed_.empty()) return;
  deadlines_->StopFromLoop();
  if (finished_ != nullptr) std::exchange(finished_, nullptr)();
  for (const auto& waiter : waiters_) waiter->Notify();
  waiters_.clear();
}

EventLoop::TimerId Connection::Later(int64_t ms, std::function<void()> what) {
  return loop_->AddTimerFromLoop(loop_->Now().PlusMs(ms),
                                 [self = shared_from_this(), what = std::move(what)] { what(); });
}

}  // namespace farandole::transport::verbs
