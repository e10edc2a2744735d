#include "controller/rpc/session_call.h"

#include <grpc/grpc.h>
#include <grpc/support/time.h>
#include <grpcpp/support/slice.h>

#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/rpc/grpc_status.h"
#include "proto/codec/codec.h"
#include "proto/rules/version_check.h"

namespace farandole::controller::rpc {
namespace {

constexpr size_t kAgentIdMax = 128;
// Up to here a copy for each stream is cheaper than to share.
constexpr size_t kCopiedBytesMax = 1024;

absl::StatusOr<AgentUp> Decode(grpc::ByteBuffer* buffer) {
  grpc::Slice slice;
  if (!buffer->TrySingleSlice(&slice).ok() && !buffer->DumpToSingleSlice(&slice).ok()) {
    return absl::InvalidArgumentError("a message without bytes");
  }
  return DecodeAgentUp(absl::string_view(reinterpret_cast<const char*>(slice.begin()), slice.size()));
}

grpc::ByteBuffer ToBuffer(std::string head, hub::SharedBytes body) {
  if (body == nullptr || body->size() <= kCopiedBytesMax) {
    if (body != nullptr) head += *body;
    const grpc::Slice slice(head);
    return grpc::ByteBuffer(&slice, 1);
  }
  auto* const shared = new hub::SharedBytes(std::move(body));
  const grpc::Slice slices[] = {grpc::Slice(head),
                                grpc::Slice(
                                    const_cast<char*>((*shared)->data()), (*shared)->size(),
                                    [](void* p) { delete static_cast<hub::SharedBytes*>(p); }, shared)};
  return grpc::ByteBuffer(slices, 2);
}

}  // namespace

void SessionCall::Serve(const Request& request, hub::Hub* hub, CompletionThread* thread, SessionBounds bounds) {
  auto call = std::make_shared<SessionCall>(hub, thread, bounds);
  request(&call->context_, &call->stream_, call->open_step_.Arm([=](bool ok) {
    if (!ok) return;  // the server shuts down
    Serve(request, hub, thread, bounds);
    call->Begin();
  }));
}

void SessionCall::Begin() {
  job_ = JobOf(context_);
  OnStrand([this] { return Greet(); });
}

absl::Status SessionCall::Greet() {
  const absl::Status status = hub_->StreamBegins(job_, peer());
  if (!status.ok()) return status;
  counted_ = true;
  const gpr_timespec when =
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(bounds_.hello_ms_max, GPR_TIMESPAN));
  absl::MutexLock lock(&mutex_);
  if (end_) return *end_;
  alarm_.Set(thread_->queue(), when, alarm_step_.Arm([self = shared_from_this()](bool ok) {
    if (!ok) return;
    self->thread_->Hold();  // as in OnStrand
    self->hub_->strand().Post([self] { self->HelloOverdue(); });
  }));
  return absl::OkStatus();
}

void SessionCall::HelloOverdue() {
  // The alarm may cross AgentHello.
  if (agent_id_.empty()) {
    Close(absl::DeadlineExceededError(absl::StrCat("no AgentHello came on this stream within ", bounds_.hello_ms_max,
                                                   " ms; is what connects an agent of Farandole?")));
  }
  thread_->Release();
}

void SessionCall::Read() {
  stream_.Read(&incoming_, read_step_.Arm([self = shared_from_this()](bool ok) { self->OnRead(ok); }));
}

void SessionCall::OnRead(bool ok) {
  if (!ok) {
    Close(absl::OkStatus());
    return;
  }
  absl::StatusOr<AgentUp> message = Decode(&incoming_);
  incoming_.Clear();
  if (!message.ok()) {
    Close(message.status());
    return;
  }
  // The next message is read when this one has been dealt with: a stream has at most one entry in the strand's queue.
  OnStrand([this, m = *std::move(message)] { return Take(m); });
}

void SessionCall::OnStrand(std::function<absl::Status()> handle) {
  {
    absl::MutexLock lock(&mutex_);
    ++handling_;
  }
  thread_->Hold();  // for the operations that follow from it
  hub_->strand().Post([self = shared_from_this(), handle = std::move(handle)] { self->Handle(handle); });
}

void SessionCall::Handle(const std::function<absl::Status()>& handle) {
  const absl::Status status = handle();
  if (!status.ok()) Close(status);
  bool ended;
  {
    absl::MutexLock lock(&mutex_);
    ended = end_.has_value();
  }
  if (!ended) Read();
  {
    absl::MutexLock lock(&mutex_);
    --handling_;
  }
  FinishIfEnded();
  thread_->Release();
}

absl::Status SessionCall::Take(const AgentUp& message) {
  if (agent_id_.empty()) return Open(message);
  if (std::holds_alternative<AgentHello>(message) || std::holds_alternative<std::monostate>(message)) {
    return absl::InvalidArgumentError("AgentHello comes once, and no message is empty");
  }
  hub_->Said(this, job_, agent_id_, message);
  return absl::OkStatus();
}

absl::Status SessionCall::Open(const AgentUp& message) {
  const AgentHello* hello = std::get_if<AgentHello>(&message);
  if (hello == nullptr) return absl::InvalidArgumentError("the first message must be AgentHello");
  if (hello->agent_id.empty() || hello->agent_id.size() > kAgentIdMax) {
    return absl::InvalidArgumentError(absl::StrCat("agent_id must have 1 to ", kAgentIdMax, " bytes"));
  }
  const absl::Status version =
      CheckVersion(absl::StrCat("the agent on host ", hello->host), hello->version, "the controller");
  if (!version.ok()) {
    hub_->Refused(*this, job_, *hello, version);
    return version;
  }
  // If the hub refuses it has closed the stream already; closing again changes nothing.
  if (!hub_->Opened(shared_from_this(), job_, *hello)) return absl::AbortedError("refused");
  agent_id_ = hello->agent_id;
  absl::MutexLock lock(&mutex_);
  alarm_.Cancel();
  return absl::OkStatus();
}

void SessionCall::Send(std::string head, hub::SharedBytes body) {
  const size_t bytes = head.size() + (body == nullptr ? 0 : body->size());
  bool taken = false;
  {
    absl::MutexLock lock(&mutex_);
    if (end_) return;
    if (held_bytes_ + bytes <= bounds_.held_bytes_max) {
      taken = true;
      held_bytes_ += bytes;
      outgoing_.push_back(ToBuffer(std::move(head), std::move(body)));
      if (writing_) return;
      writing_ = true;
    }
  }
  if (!taken) {
    Close(absl::AbortedError(
        absl::StrCat("the agent reads too slowly: ", bounds_.held_bytes_max, " bytes are held for it")));
    return;
  }
  WriteFront();
}

// Without the mutex: the step may end before this returns. `writing_` keeps others away from the front.
void SessionCall::WriteFront() {
  const grpc::ByteBuffer* front;
  grpc::WriteOptions options;
  {
    absl::MutexLock lock(&mutex_);
    front = &outgoing_.front();
    if (outgoing_.size() > 1) options.set_buffer_hint();
  }
  stream_.Write(*front, options, write_step_.Arm([self = shared_from_this()](bool ok) { self->OnWritten(ok); }));
}

void SessionCall::OnWritten(bool ok) {
  bool more;
  {
    absl::MutexLock lock(&mutex_);
    held_bytes_ -= outgoing_.front().Length();
    outgoing_.pop_front();
    more = ok && !end_ && !outgoing_.empty();
    writing_ = more;
  }
  if (more) {
    WriteFront();
  } else {
    FinishIfEnded();
  }
}

std::string SessionCall::peer() const { return AddressOf(context_); }

void SessionCall::Close(absl::Status status) {
  bool writing;
  {
    absl::MutexLock lock(&mutex_);
    if (end_) return;
    end_ = status;
    writing = writing_;
  }
  if (writing) {
    // The write may be stuck behind an agent that does not read. Ends it, with our status; OnWritten finishes.
    const absl::Status reason = status.ok() ? absl::CancelledError("the agent closed its side") : status;
    grpc_call_cancel_with_status(context_.c_call(), static_cast<grpc_status_code>(reason.code()),
                                 std::string(reason.message()).c_str(), nullptr);
  }
  FinishIfEnded();
}

// Finish may be called once, and no read or write may be started after it.
void SessionCall::FinishIfEnded() {
  absl::Status status;
  {
    absl::MutexLock lock(&mutex_);
    if (!end_ || writing_ || handling_ > 0 || finished_) return;
    finished_ = true;
    status = *end_;
    alarm_.Cancel();
  }
  stream_.Finish(ToGrpc(status), finish_step_.Arm([self = shared_from_this()](bool) { self->OnFinished(); }));
}

void SessionCall::OnFinished() {
  hub_->strand().Post([self = shared_from_this()] {
    if (!self->agent_id_.empty()) self->hub_->Closed(self.get(), self->job_, self->agent_id_);
    if (self->counted_) self->hub_->StreamEnded(self->job_);
  });
}

}  // namespace farandole::controller::rpc
